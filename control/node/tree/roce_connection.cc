#include "control/node/tree/roce_connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random_number.h"

namespace tally::control {
namespace {

namespace verbs = transport::verbs;
using nlohmann::json;

constexpr Nanos kFirstAnswer = 5 * kSecond;  // as for clients' connections
constexpr Nanos kTurn = kMillisecond;

}  // namespace

Result<std::unique_ptr<RoceConnection>> RoceConnection::make(const Options& options,
                                                             rpc::RpcChannel& channel,
                                                             const json& opened, Nanos deadline) {
  auto events = client::SessionEvents::make(channel.fd());
  if (!events) return events.error();
  std::unique_ptr<RoceConnection> made(new RoceConnection(options, std::move(events).value()));
  json names = json::array();
  made->reserved_.reserve(options.size.shards);
  const Outcome reserved = options.tasks->run(options.shard, [&](Transports& transports) {
    for (std::uint32_t i = 0; i < options.size.shards; ++i) {
      made->reserved_.push_back(transports.roce->reserve());
    }
  });
  if (!reserved) return reserved.error();
  for (const Address& address : made->reserved_) names.push_back(verbs::to_hex(address));
  const auto attached =
      channel.call("session.attach", {{"transport", "verbs"}, {"names", names}}, {}, deadline);
  if (!attached) return attached.error();
  std::vector<Address> parents;
  std::uint32_t probe_bytes = 0;
  try {
    for (const std::string& name : attached->at("names").get<std::vector<std::string>>()) {
      const auto address = verbs::from_hex(name);
      if (address) parents.push_back(*address);
    }
    probe_bytes = opened.at("verbs").value("probe_bytes", 0U);
  } catch (const json::exception&) {
    return rpc::unreadable("session.attach", channel);
  }
  if (parents.size() != options.size.shards) return rpc::unreadable("session.attach", channel);
  if (Outcome done = made->connect(parents, probe_bytes); !done) return done.error();
  const Nanos until = std::min(deadline, monotonic_now() + kFirstAnswer);
  if (Outcome done = made->wait_for_answers(until); !done) return done.error();
  return made;
}

RoceConnection::~RoceConnection() {
  fence(0);
}

Outcome RoceConnection::connect(std::span<const Address> parents, std::uint32_t probe_bytes) {
  Outcome outcome = Unit{};
  const Outcome ran = options_.tasks->run(options_.shard, [&](Transports& transports) {
    transports.use(*transports.roce);
    uses_ = true;
    for (std::size_t i = 0; i < parents.size(); ++i) {
      auto made = transports.roce->connect(reserved_[i], parents[i], options_.size.credit);
      if (!made) {
        outcome = made.error();
        return;
      }
      parents_.push_back(*made);
      parents_.back()->probe(probe_bytes);
    }
  });
  return ran ? outcome : ran;
}

Outcome RoceConnection::wait_for_answers(Nanos deadline) {
  const auto has_answer = [](const ParentPair* one) {
    return one->state() == ParentPair::State::kAnswered;
  };
  std::string why = "no answer in time";
  while (monotonic_now() < deadline) {
    if (const ParentPair* const one = lost()) {
      why = one->why_lost();
      break;
    }
    if (std::all_of(parents_.begin(), parents_.end(), has_answer)) return Unit{};
    if (read_events() && lost() == nullptr) return Error{Status::kUnavailable, "the node is gone"};
    ::usleep(kTurn / kMicrosecond);
  }
  return Error{
      Status::kUnsupported,
      fmt::format("no packets get from network.roce's port to the parent node's: {}", why)};
}

const RoceConnection::ParentPair* RoceConnection::lost() const {
  const auto found = std::find_if(parents_.begin(), parents_.end(), [](const ParentPair* one) {
    return one->state() == ParentPair::State::kLost;
  });
  return found == parents_.end() ? nullptr : *found;
}

bool RoceConnection::send(std::uint32_t shard, const wire::Notice& notice,
                          std::span<const std::byte>) {
  return send_message(shard, wire::encode(notice));
}

bool RoceConnection::send_message(std::uint32_t shard, const RingEntry& message) {
  return within_memory([&] { parents_[shard]->send_up(message); });
}

std::size_t RoceConnection::receive(std::uint32_t shard, std::span<RingEntry> out) {
  return parents_[shard]->receive(out);
}

// All shards of the parent may reach the region, as with a protection domain of an RDMA device.
Result<client::Connection::Offer> RoceConnection::offer(const client::Region& region) {
  const auto key = static_cast<std::uint32_t>(random_number());
  const Outcome exposed = options_.tasks->run(options_.shard, [&](Transports&) {
    for (ParentPair* const one : parents_) one->expose({region.data(), region.bytes()}, key);
  });
  if (!exposed) return exposed.error();
  return Offer{{{"bytes", region.bytes()}, {"base", region.address()}, {"key", key}}, {}};
}

// The shard's transport wakes it when something has come.
bool RoceConnection::arm(Nanos until) {
  events_.set_alarm(until);
  return lost() == nullptr &&
         std::none_of(parents_.begin(), parents_.end(),
                      [](const ParentPair* one) { return one->has_messages(); });
}

bool RoceConnection::read_events() {
  const bool ended = events_.read([](std::uint32_t) {});
  return ended || lost() != nullptr;
}

std::string RoceConnection::why_gone() const {
  const ParentPair* const one = lost();
  return one == nullptr ? Connection::why_gone()
                        : "the connection over RoCE failed: " + one->why_lost();
}

bool RoceConnection::fence(Nanos) {
  // Without memory a task may not run. The parent must not reach the regions, so it has to.
  const auto end = [this](Transports& transports) {
    for (const Address& own : reserved_) transports.roce->remove(own);
    reserved_.clear();
    parents_.clear();
    if (std::exchange(uses_, false)) transports.end_use(*transports.roce);
  };
  while (!reserved_.empty() && !options_.tasks->run(options_.shard, end)) {
    ::usleep(kTurn / kMicrosecond);
  }
  return true;
}

}  // namespace tally::control
