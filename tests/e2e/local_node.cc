#include "tests/e2e/local_node.h"

#include <stdlib.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <filesystem>
#include <future>
#include <stdexcept>

namespace tally::testing {

LocalNode::LocalNode(const LocalNodeOptions& options) {
  char directory[] = "/tmp/tally-test-XXXXXX";
  if (::mkdtemp(directory) == nullptr) throw std::runtime_error("mkdtemp");
  directory_ = directory;
  address_ = "unix:" + directory_ + "/tallyd.sock";

  engine::ShardConfig config;
  config.kernels = summation::kernels(options.isa);
  config.protocol.plan = protocol::even_plan(options.shards, options.split_bytes);
  config.protocol.tile_bytes = options.tile_bytes;
  shards_ = std::make_unique<control::ShardSet>(io_, options.shards, config);
  control::NodeOptions node;
  node.facts.address = address_;
  node.plan = config.protocol.plan;
  node.credit = options.credit;
  node.limits = options.limits;
  node.jobs = options.jobs;
  node_ = std::make_unique<control::Node>(node, *shards_, [this](auto connection, auto reason) {
    server_->disconnect(connection, reason);
  });
  server_ = std::make_unique<rpc::Server>(io_, *node_);
  const auto listening = server_->listen({.address = address_});
  if (!listening) throw std::runtime_error(listening.error().message);
  for (std::uint32_t i = 0; i < options.shards; ++i) {
    threads_.emplace_back([this, i, busy = options.busy] { shards_->run(i, busy); });
  }
  threads_.emplace_back([this] {
    const auto guard = asio::make_work_guard(io_);
    io_.run();
  });
}

LocalNode::~LocalNode() {
  asio::post(io_, [this] {
    server_->stop();
    shards_->stop();
    io_.stop();
  });
  for (std::thread& thread : threads_) thread.join();
  std::filesystem::remove_all(directory_);
}

void LocalNode::on_each_shard(control::ShardSet::Task task) {
  std::promise<void> done;
  asio::post(io_, [&] { shards_->on_each(std::move(task), [&] { done.set_value(); }); });
  done.get_future().wait();
}

}  // namespace tally::testing
