// The election of a coordinator among the nodes that use one etcd. The node that creates a key wins
// it. The key has a lease, which the winner keeps alive, and ends with it. The revision that
// created the key is the winner's *term*: a later winner has a higher one. Other nodes look at the
// key at intervals. They do not watch it, because a watch through a proxy may end silently and many
// watches can stop a member of etcd. Control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "control/coordinator/store/etcd/client.h"
#include "control/coordinator/store/etcd/messages.h"

namespace tally::control::etcd {

inline constexpr std::int64_t kLeaseSeconds = 2;  // the shortest that etcd gives

struct ElectionOptions {
  std::string key;
  std::string name;  // of this node, for people who look at the key
  // How long the winner tries to reach etcd before it gives its term up.
  Nanos patience = 5 * kSecond;
};

struct ElectionEvents {
  std::function<void(Revision term)> won;
  std::function<void(const Error& why)> lost;       // the term that was won has ended
  std::function<void(Revision term)> other;         // another node has won; at each look
  std::function<void(const Error& why)> no_answer;  // from etcd, while another node may act
};

class Election {
 public:
  // Begins to take part. Borrows io and client.
  Election(asio::io_context& io, Client& client, ElectionOptions options, ElectionEvents events);
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  // Gives the term up, if this node has one, so that another node wins soon. It takes part again
  // after a lease's time. Calls no event.
  void resign();
  // Gives the term up, and takes part no more.
  void stop();

 private:
  void look_later(Nanos pause);
  void look();
  void campaign();
  void create_key(std::int64_t lease);
  void created(std::int64_t lease, const Result<nlohmann::json>& answer);
  void keep_alive_later();
  void keep_alive();
  void kept_alive(const Result<nlohmann::json>& answer);
  void lose(const Error& why);
  void revoke();
  // Calls the client. `then` is dropped when this object or the present attempt has ended.
  void call(std::string_view method, nlohmann::json body, Nanos timeout, Client::Then then);

  asio::io_context& io_;
  Client& client_;
  const ElectionOptions options_;
  const ElectionEvents events_;
  asio::steady_timer timer_;
  std::int64_t lease_ = 0;  // of the present attempt or term; 0: none
  bool stopped_ = false;
  std::uint64_t attempt_ = 0;  // rises when calls in progress do not matter any more
  const std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace tally::control::etcd
