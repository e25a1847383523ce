#include "tests/e2e/local_node.h"

#include <stdlib.h>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string_view>

#include "tests/support/roce/node_links.h"

namespace tally::testing {

bool LocalNode::over_network() {
  const char* wanted = std::getenv("TALLY_TRANSPORT");
  return wanted != nullptr && std::string_view(wanted) != "shm";
}

namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::string host() {
  return from_environment("TALLY_TEST_HOST", "127.0.0.1");
}

std::uint8_t ack_timeout() {
  const char* wanted = std::getenv("TALLY_TEST_ACK_TIMEOUT");
  return wanted != nullptr ? static_cast<std::uint8_t>(std::atoi(wanted))
                           : transport::verbs::kAckTimeout;
}

bool over_verbs() {
  const char* wanted = std::getenv("TALLY_TRANSPORT");
  return wanted != nullptr && std::string_view(wanted).starts_with("verbs");
}

bool in_user_space() {
  return from_environment("TALLY_TEST_NODE", "") == "roce";
}

std::vector<control::NetworkTransports> over_roce(std::uint32_t shards,
                                                  std::uint64_t window_bytes) {
  std::vector<control::NetworkTransports> made;
  for (NodeLink& one : node_links(shards)) {
    transport::roce::TransportOptions port;
    port.address = one.address;
    port.mtu = one.mtu;
    port.landing_bytes = 16 * window_bytes;
    port.ack_timeout = Nanos{4'096} << ack_timeout();
    made.emplace_back().roce =
        std::make_unique<transport::roce::RoceTransport>(std::move(one.link), port);
  }
  return made;
}

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

std::vector<control::NetworkTransports> networks(const LocalNodeOptions& options,
                                                 std::uint64_t window_bytes) {
  if (over_verbs() && in_user_space()) return over_roce(options.shards, window_bytes);
  std::vector<control::NetworkTransports> ports;
  for (std::uint32_t i = 0; i < options.shards && LocalNode::over_network(); ++i) {
    control::NetworkTransports& made = ports.emplace_back();
    if (over_verbs()) {
      transport::verbs::TransportOptions port;
      port.device.ack_timeout = ack_timeout();
      port.credit = options.credit;
      port.landing_bytes = 16 * window_bytes;
      made.verbs =
          must(transport::verbs::VerbsTransport::open(*must(transport::verbs::system_api()), port));
    } else {
      transport::fabric::TransportOptions port;
      port.domain.address = host();
      port.domain.provider = from_environment("TALLY_TEST_PROVIDER", "");
      port.landing_bytes = 16 * window_bytes;
      made.fabric = must(transport::fabric::FabricTransport::open(port));
    }
  }
  return ports;
}

}  // namespace

LocalNode::LocalNode(const LocalNodeOptions& options) {
  char directory[] = "/tmp/tally-test-XXXXXX";
  if (::mkdtemp(directory) == nullptr) throw std::runtime_error("mkdtemp");
  directory_ = directory;
  address_ = "unix:" + directory_ + "/tallyd.sock";

  engine::ShardConfig config;
  config.kernels = summation::kernels(options.isa);
  if (options.checksums) config.crc32c = Crc32c::open().value();
  config.protocol.plan = protocol::even_partition(options.shards, options.split_bytes);
  config.protocol.tile_bytes = options.tile_bytes;
  auto ports = networks(options, config.protocol.window_bytes);
  control::NodeOptions node;
  node.access = std::make_shared<control::Access>(true);  // tests may see all jobs
  if (!ports.empty() && ports.front().roce != nullptr) {
    node.verbs = {"roce", "", ack_timeout(), true};
  } else if (!ports.empty() && over_verbs()) {
    node.verbs = {ports.front().verbs->choice().device, "", ack_timeout()};
  } else if (!ports.empty()) {
    const transport::fabric::FabricTransport& port = *ports.front().fabric;
    node.fabric = {port.provider(), port.host(), port.eager_bytes()};
  }
  shards_ = std::make_unique<control::ShardSet>(io_, options.shards, config, std::span<std::byte>{},
                                                std::move(ports));
  node.facts.address = address_;
  node.split_bytes = options.split_bytes;
  node.credit = options.credit;
  node.checksums = options.checksums;
  node.limits = options.limits;
  node.jobs = options.jobs;
  node_ = std::make_unique<control::Node>(
      node, io_, *shards_, store_,
      [this](auto connection, auto reason) { server_->disconnect(connection, reason); });
  server_ = std::make_unique<rpc::Server>(io_, *node_);
  if (over_network()) address_ = "tcp:" + host() + ":0";
  const auto listening = server_->listen({.address = address_});
  if (!listening) throw std::runtime_error(listening.error().message);
  address_ = *listening;
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
