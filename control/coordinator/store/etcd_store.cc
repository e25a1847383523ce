#include "control/coordinator/store/etcd_store.h"

#include <fmt/format.h>

#include <array>
#include <asio/post.hpp>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log/log.h"
#include "base/text/quoted.h"
#include "control/coordinator/store/record_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

// etcd's defaults permit 128 operations and 1.5 MiB in a transaction.
constexpr Nanos kLoading = 5 * kSecond;
constexpr std::size_t kMostWrites = 100;
constexpr std::size_t kMostBytes = 900 << 10;
constexpr std::size_t kPartBytes = 512 << 10;
constexpr std::uint64_t kPage = 16;  // values of a page, each of at most kPartBytes

constexpr std::string_view kMember = "member/";
constexpr std::string_view kDeparted = "departed/";
constexpr std::string_view kJob = "job/";
constexpr std::string_view kPlan = "plan/";
constexpr const char* kSpeeds = "speeds";
constexpr const char* kLastEpoch = "last/epoch";
constexpr const char* kLastNode = "last/node";
constexpr const char* kLastPlacement = "last/placement";
constexpr const char* kLastWrite = "last/write";

// The last numbers that coordinators have given, each with the largest that there can be.
constexpr std::array<std::pair<const char*, std::uint64_t>, 3> kLastNumbers = {
    {{kLastEpoch, UINT32_MAX}, {kLastNode, UINT64_MAX}, {kLastPlacement, UINT64_MAX}}};
constexpr std::size_t kMostShown = 60;  // bytes of a value in an error

std::string key_of(std::string_view kind, std::uint64_t number) {
  return fmt::format("{}{}", kind, number);
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

void complain(const std::string& key) {
  log::error("store-unreadable",
             {{"key", key}, {"remedy", "upgrade this node; it goes on without"}});
}

Error unreadable_number(const std::string& key, std::string_view value, std::uint64_t most) {
  return refused(fmt::format(
      "etcd: the key {} has the value {}{}, and must have \"v\" and a number of at most {}: write "
      "the "
      "value that a backup of etcd has; or end all jobs and nodes, and erase all keys of "
      "cluster.store_prefix, with the plans and drains there",
      key, quoted(value.substr(0, kMostShown), "\\x%02x"),
      value.size() > kMostShown ? fmt::format(" (of {} bytes)", value.size()) : "", most));
}

// Calls use(rest of the key, value) for each key that begins so. Logs the keys that it refuses.
template <typename Use>
void for_each(const std::map<std::string, std::string>& values, std::string_view kind,
              const Use& use) {
  for (auto at = values.lower_bound(std::string(kind)); at != values.end(); ++at) {
    if (!at->first.starts_with(kind)) break;
    if (!use(at->first.substr(kind.size()), at->second)) complain(at->first);
  }
}

}  // namespace

EtcdStore::EtcdStore(etcd::Client& client, std::string prefix, ElectionFence fence,
                     std::function<void(const Error&)> lost)
    : client_(client),
      prefix_(std::move(prefix)),
      fence_(std::move(fence)),
      on_lost_(std::move(lost)),
      values_(std::to_string(fence_.term), kPartBytes),
      queue_(kMostWrites, kMostBytes) {}

// -- Reading the state of an earlier coordinator ------------------------------------------------

struct EtcdStore::Loading {
  std::unique_ptr<EtcdStore> store;
  std::map<std::string, std::string> values;  // by key without prefix
  Nanos deadline = 0;
  Loaded then;
};

void EtcdStore::load(etcd::Client& client, std::string prefix, ElectionFence fence,
                     std::function<void(const Error&)> lost, Loaded then) {
  auto loading = std::make_shared<Loading>();
  loading->store.reset(new EtcdStore(client, std::move(prefix), std::move(fence), std::move(lost)));
  loading->deadline = monotonic_now() + kLoading;
  loading->then = std::move(then);
  load_page(loading, loading->store->prefix_);
}

// Only the holder of the election's key writes, so pages fit together without a common revision.
void EtcdStore::load_page(const std::shared_ptr<Loading>& loading, const std::string& first) {
  EtcdStore& store = *loading->store;
  const auto take = [loading](const Result<json>& answer) {
    if (!answer) return loading->then(answer.error());
    auto range = etcd::parse_range(*answer);
    if (!range) return loading->then(range.error());
    const std::string& prefix = loading->store->prefix_;
    for (etcd::KeyValue& one : range->values) {
      if (!one.key.starts_with(prefix)) continue;
      loading->values[one.key.substr(prefix.size())] = std::move(one.value);
    }
    if (range->more && !range->values.empty()) {
      return load_page(loading, range->values.back().key + '\0');
    }
    if (const auto taken = loading->store->take_over(std::move(loading->values)); !taken) {
      return loading->then(taken.error());
    }
    loading->then(std::move(loading->store));
  };
  store.client_.call("kv/range", etcd::page_request(first, store.prefix_, kPage), loading->deadline,
                     take);
}

Outcome EtcdStore::take_over(std::map<std::string, std::string> stored) {
  if (const auto last = stored.find(kLastWrite); last != stored.end()) {
    last_ = std::move(last->second);
    stored.erase(last);
  }
  if (auto numbers = take_over_numbers(stored); !numbers) return numbers;
  auto read = values_.read(std::move(stored));
  for (const std::string& key : read.unreadable) complain(key);
  take_over_records(read.values);
  add(std::move(read.left_over));
  return Unit{};
}

void EtcdStore::take_over_records(const std::map<std::string, std::string>& values) {
  const auto take_member = [](const auto& rest, const auto& value, const auto& put) {
    const auto node = number_in(rest);
    auto member = read_member(value);
    if (!node || !member) return false;
    put(*node, *member);
    return true;
  };
  for_each(values, kMember, [&](const std::string& rest, const std::string& value) {
    return take_member(rest, value,
                       [&](NodeId node, const Member& one) { MemoryStore::put(node, one); });
  });
  for_each(values, kDeparted, [&](const std::string& rest, const std::string& value) {
    return take_member(
        rest, value, [&](NodeId node, const Member& one) { MemoryStore::put_departed(node, one); });
  });
  for_each(values, kPlan, [&](const std::string& job, const std::string& value) {
    auto plan = read_set_plan(value);
    if (plan != nullptr) MemoryStore::put_plan(job, plan);
    return plan != nullptr;
  });
  for_each(values, kJob, [&](const std::string&, const std::string& value) {
    auto job = read_job(value, plans());
    if (job != nullptr) MemoryStore::put(job);
    return job != nullptr;
  });
  const auto speeds = values.find(kSpeeds);
  if (speeds == values.end()) return;
  auto read = read_speeds(speeds->second);
  if (read) return MemoryStore::put_speeds(std::move(*read));
  complain(kSpeeds);
}

Outcome EtcdStore::take_over_numbers(const std::map<std::string, std::string>& stored) {
  std::array<std::uint64_t, kLastNumbers.size()> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& [key, most] = kLastNumbers[i];
    const auto found = stored.find(key);
    if (found == stored.end()) continue;  // none has been given
    const auto number = number_in(LargeValues::whole(found->second));
    if (!number || *number > most) return unreadable_number(prefix_ + key, found->second, most);
    numbers[i] = *number;
  }
  continue_from(static_cast<std::uint32_t>(numbers[0]), numbers[1], numbers[2]);
  return Unit{};
}

// -- Writes ------------------------------------------------------------------------------------

void EtcdStore::put(NodeId node, const Member& member) {
  MemoryStore::put(node, member);
  write(key_of(kMember, node), member_text(member));
}

void EtcdStore::erase(NodeId node) {
  MemoryStore::erase(node);
  remove(key_of(kMember, node));
}

void EtcdStore::put_departed(NodeId node, const Member& member) {
  MemoryStore::put_departed(node, member);
  write(key_of(kDeparted, node), member_text(member));
}

void EtcdStore::erase_departed(NodeId node) {
  MemoryStore::erase_departed(node);
  remove(key_of(kDeparted, node));
}

void EtcdStore::put(SharedJob job) {
  write(key_of(kJob, job->epoch), job_text(*job));
  MemoryStore::put(std::move(job));
}

void EtcdStore::erase_job(std::uint32_t epoch) {
  MemoryStore::erase_job(epoch);
  remove(key_of(kJob, epoch));
}

void EtcdStore::put_plan(const std::string& job, std::shared_ptr<const SetPlan> plan) {
  write(std::string(kPlan) + job, set_plan_text(*plan));
  MemoryStore::put_plan(job, std::move(plan));
}

void EtcdStore::erase_plan(const std::string& job) {
  MemoryStore::erase_plan(job);
  remove(std::string(kPlan) + job);
}

void EtcdStore::put_speeds(std::map<std::string, Measured> speeds) {
  write(kSpeeds, speeds_text(speeds));
  MemoryStore::put_speeds(std::move(speeds));
}

std::uint32_t EtcdStore::next_epoch() {
  const std::uint32_t epoch = MemoryStore::next_epoch();
  write(kLastEpoch, std::to_string(epoch));
  return epoch;
}

void EtcdStore::observe_epoch(std::uint32_t epoch) {
  if (epoch <= last_epoch()) return;
  MemoryStore::observe_epoch(epoch);
  write(kLastEpoch, std::to_string(epoch));
}

NodeId EtcdStore::next_node() {
  const NodeId node = MemoryStore::next_node();
  write(kLastNode, std::to_string(node));
  return node;
}

std::uint64_t EtcdStore::next_placement() {
  const std::uint64_t placement = MemoryStore::next_placement();
  write(kLastPlacement, std::to_string(placement));
  return placement;
}

void EtcdStore::write(const std::string& key, const std::string& value) {
  add(values_.put(key, value));
}

void EtcdStore::remove(const std::string& key) {
  add(values_.erase(key));
}

void EtcdStore::add(std::vector<Write> writes) {
  if (lost_) return;
  for (Write& one : writes) queue_.add(std::move(one));
  send_soon();
}

// -- Settling ----------------------------------------------------------------------------------

void EtcdStore::when_settled(std::function<void(const Outcome&)> then) {
  if (lost_) return then(*lost_);
  waiting_.push_back({queue_.added(), sent_, std::move(then)});
  send_soon();
}

// The writes of one event, and the answers that wait for them, need one transaction together.
void EtcdStore::send_soon() {
  if (will_send_ || is_sending_) return;
  will_send_ = true;
  asio::post(client_.loop(), [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    will_send_ = false;
    send();
  });
}

// Sends one transaction at a time, so writes settle in order.
void EtcdStore::send() {
  if (is_sending_ || lost_ || (queue_.empty() && waiting_.empty())) return;
  is_sending_ = true;
  ++sent_;
  WriteQueue::Batch batch;
  batch.last = queue_.added();
  if (!queue_.empty()) batch = queue_.take();
  client_.call("kv/txn", transaction(batch.writes), monotonic_now() + fence_.timeout,
               [this, last = batch.last, alive = std::weak_ptr(alive_)](const auto& answer) {
                 if (!alive.expired()) answered(last, answer);
               });
}

json EtcdStore::transaction(const std::vector<Write>& writes) {
  json conditions = json::array({etcd::created_at(fence_.key, fence_.term)});
  json operations = json::array();
  for (const Write& one : writes) {
    const std::string key = prefix_ + one.key;
    operations.push_back(one.value ? etcd::put_operation(key, *one.value)
                                   : etcd::delete_operation(key));
  }
  next_.clear();
  if (!writes.empty()) {
    const std::string key = prefix_ + kLastWrite;
    next_ = fmt::format("{}/{}", fence_.term, sent_);
    conditions.push_back(last_.empty() ? etcd::created_at(key, 0) : etcd::has_value(key, last_));
    operations.push_back(etcd::put_operation(key, next_));
  }
  return {{"compare", std::move(conditions)},
          {"success", std::move(operations)},
          {"failure", json::array({etcd::get_operation(prefix_ + kLastWrite)})}};
}

// The repetition of a transaction that etcd has done already takes the other branch.
bool EtcdStore::is_done(const etcd::TransactionAnswer& answer) const {
  if (answer.succeeded || next_.empty()) return answer.succeeded;
  return answer.values.size() == 1 && answer.values.front().value == next_;
}

void EtcdStore::answered(std::uint64_t last, const Result<json>& answer) {
  is_sending_ = false;
  if (!answer) return lose(answer.error());
  const auto parsed = etcd::parse_transaction(*answer);
  if (!parsed) return lose(parsed.error());
  if (!is_done(*parsed)) {
    return lose({Status::kUnavailable,
                 "this node is not the coordinator any more: its term has ended in etcd"});
  }
  settled_ = last;
  if (!next_.empty()) last_ = next_;
  settle();
  send();
}

// A callback may call when_settled(), and then comes behind the others.
void EtcdStore::settle() {
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    if (first.write > settled_ || first.sent >= sent_) return;
    const auto then = std::move(first.then);
    waiting_.pop_front();
    then(Unit{});
  }
}

void EtcdStore::abandon(const Error& why) {
  if (lost_) return;
  lost_ = why;
  for (const Waiting& one : std::exchange(waiting_, {})) one.then(why);
}

void EtcdStore::lose(const Error& error) {
  if (lost_) return;
  abandon(error);
  const auto on_lost = on_lost_;  // this may end in the call
  on_lost(error);
}

}  // namespace tally::control
