// The access rules of a node: decides for each caller and method whether the call is permitted.
// Each node has one object. Only the control thread uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/log/log_limiter.h"
#include "base/result.h"
#include "control/access/caller.h"
#include "net/address.h"
#include "net/auth/key_ring.h"
#include "net/server/peer.h"
#include "net/server/wrong_keys.h"

namespace tally::control {

class Access {
 public:
  // insecure: peers over TCP need not show anything, and may call what operators may.
  // revoked_file: where the ids of revoked tokens are kept; empty: in memory alone.
  explicit Access(bool insecure = false, std::string revoked_file = {})
      : insecure_(insecure), revoked_file_(std::move(revoked_file)), host_(net::host_name()) {}

  // Reads the file of revoked tokens, if there is one. An error: it cannot be read.
  Outcome read_revoked();
  // The token with this id is not accepted any more. An error: it cannot be kept in the file; it is
  // revoked until the node ends.
  Outcome revoke(const std::string& id);

  net::auth::KeyRing& keys() { return keys_; }
  const net::auth::KeyRing& keys() const { return keys_; }
  bool is_insecure() const { return insecure_; }

  // The caller of a request that shows no text.
  Caller caller(const rpc::Peer& peer) const;
  // The caller of a request with this `token`. An error: the token is one of Tally's, and is not
  // accepted.
  Result<Caller> caller(const rpc::Peer& peer, const std::string& token) const;

  // Whether the peer may call the method at all. Methods about a job check the job's lock besides
  // (job_lock.h).
  Outcome may_call(const rpc::Peer& peer, std::string_view method) const;

  // Writes the log line of a request with this answer, if that is a refusal; a few a second at
  // most. A source that is refused often at the door of jobs (job.open, session.open) must wait
  // before it may show another token.
  void audit(const rpc::Peer& peer, std::string_view method, const Error& error);

  // Seconds since 1970.
  static std::int64_t now();

 private:
  net::auth::KeyRing keys_;
  bool insecure_;
  std::string revoked_file_;
  std::string host_;  // where the users of the Unix socket are
  log::Limiter limiter_;
  rpc::WrongKeys wrong_;
};

}  // namespace tally::control
