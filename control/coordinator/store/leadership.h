// This node as one of those of which one is the coordinator at a time. It takes part in the
// election in etcd. When it wins a term it reads the state that earlier coordinators have stored,
// and then lets this node act. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/coordinator/store/etcd/client.h"
#include "control/coordinator/store/etcd/election.h"
#include "control/coordinator/store/etcd_store.h"

namespace tally::control {

struct LeadershipOptions {
  etcd::ClientOptions etcd;
  std::string prefix;  // of the keys in etcd: "tally/"
  std::string name;    // of this node
  FaultTimeouts timeouts;
};

struct LeadershipEvents {
  // This node acts as the coordinator from now on, until end(). The store lives until end() has
  // returned.
  std::function<void(Store& store, std::uint64_t term)> begin;
  std::function<void(const Error& why)> end;
  // Another node acts, with that term. Called once for each term.
  std::function<void(std::uint64_t term)> other;
};

class Leadership {
 public:
  // io is borrowed. An error: libcurl is missing.
  static Result<std::unique_ptr<Leadership>> start(asio::io_context& io, LeadershipOptions options,
                                                   LeadershipEvents events);
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // This node acts no more. Another one can win at once when etcd gets the message of that.
  void stop();

 private:
  Leadership(LeadershipOptions options, LeadershipEvents events,
             std::unique_ptr<etcd::Client> client);
  void begin_term(etcd::Revision term);
  void take_over(etcd::Revision term, Result<std::unique_ptr<EtcdStore>> loaded);
  void end_term(const Error& why);
  void see_other(etcd::Revision term);
  void complain_of_state(const Error& error);
  void complain(const Error& error);

  const LeadershipOptions options_;
  const LeadershipEvents events_;
  std::unique_ptr<etcd::Client> client_;
  std::optional<etcd::Election> election_;
  std::unique_ptr<EtcdStore> store_;  // null: this node does not act
  etcd::Revision term_ = 0;           // that this node has won; 0: none
  etcd::Revision other_ = 0;          // the latest term of another node
  std::string state_complaint_;       // the last ones; each is logged once
  std::string complaint_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace tally::control
