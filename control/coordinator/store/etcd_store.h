// A coordinator's store in etcd. Reads use memory. Writes go to etcd behind them, in transactions
// that etcd refuses when the coordinator's term has ended. A callback of when_settled() waits for
// its writes, and for a transaction that was sent after the call; where there are no writes to
// send, that one has none. So it is called only in a coordinator whose term lasted after the call.
// No clock decides that: a lease in etcd may end early. A member of etcd may do a transaction long
// after another member has done its repetition. So each transaction with writes names the one
// before it, and etcd does it only behind that one. Control thread only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/state/memory_store.h"
#include "control/coordinator/store/etcd/client.h"
#include "control/coordinator/store/etcd/messages.h"
#include "control/coordinator/store/large_values.h"
#include "control/coordinator/store/write_queue.h"

namespace tally::control {

// What makes this node the coordinator.
struct ElectionFence {
  std::string key;          // exists as long as the term lasts
  etcd::Revision term = 0;  // revision that created the key
  // For a write or a proof, from its call until etcd's answer.
  Nanos timeout = FaultTimeouts{}.store();
};

class EtcdStore : public MemoryStore {
 public:
  // Reads the state below `prefix`. Calls `then` once. client is borrowed by the store too.
  // lost: is called when the store is lost; the store may be destroyed there. A record that cannot
  // be read is left out. The last numbers must be readable (an error: kRefused), because numbers
  // that were given already must not be given again.
  using Loaded = std::function<void(Result<std::unique_ptr<EtcdStore>>)>;
  static void load(etcd::Client& client, std::string prefix, ElectionFence fence,
                   std::function<void(const Error&)> lost, Loaded then);

  void put(NodeId node, const Member& member) override;
  void erase(NodeId node) override;
  void put_departed(NodeId node, const Member& member) override;
  void erase_departed(NodeId node) override;
  void put(SharedJob job) override;
  void erase_job(std::uint32_t epoch) override;
  void put_plan(const std::string& job, std::shared_ptr<const SetPlan> plan) override;
  void erase_plan(const std::string& job) override;
  void put_speeds(std::map<std::string, Measured> speeds) override;
  std::uint32_t next_epoch() override;
  void observe_epoch(std::uint32_t epoch) override;
  NodeId next_node() override;
  std::uint64_t next_placement() override;

  void when_settled(std::function<void(const Outcome&)> then) override;

  // The term has ended: the store is lost, without a call of `lost`.
  void abandon(const Error& why);

 private:
  struct Loading;
  EtcdStore(etcd::Client& client, std::string prefix, ElectionFence fence,
            std::function<void(const Error&)> lost);
  static void load_page(const std::shared_ptr<Loading>& loading, const std::string& first);
  Outcome take_over(std::map<std::string, std::string> stored);
  void take_over_records(const std::map<std::string, std::string>& values);
  Outcome take_over_numbers(const std::map<std::string, std::string>& stored);

  void write(const std::string& key, const std::string& value);
  void remove(const std::string& key);
  void add(std::vector<Write> writes);
  void send_soon();
  void send();
  nlohmann::json transaction(const std::vector<Write>& writes);
  bool is_done(const etcd::TransactionAnswer& answer) const;
  void answered(std::uint64_t last, const Result<nlohmann::json>& answer);
  void settle();
  void lose(const Error& error);

  etcd::Client& client_;
  const std::string prefix_;
  const ElectionFence fence_;
  const std::function<void(const Error&)> on_lost_;
  LargeValues values_;
  WriteQueue queue_;
  bool will_send_ = false;
  bool is_sending_ = false;
  std::uint64_t sent_ = 0;     // transactions
  std::uint64_t settled_ = 0;  // number of the last write that etcd has
  std::string last_;           // names the last transaction with writes; empty: there is none
  std::string next_;           // names the one in progress; empty: it has no writes
  struct Waiting {
    std::uint64_t write = 0;  // waits for it
    std::uint64_t sent = 0;   // transactions before it: waits for a later one
    std::function<void(const Outcome&)> then;
  };
  std::deque<Waiting> waiting_;
  std::optional<Error> lost_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace tally::control
