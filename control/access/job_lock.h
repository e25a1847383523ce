// The lock of a job decides which ranks may enter the job. make_lock() makes it when the job forms,
// from the first rank's user, token and text. Pure functions.
//
//   a rank shows                                   it may enter
//   the cluster's secret, a token for the job      when the job formed with one too, or with the
//   text of the
//                                                  configuration, or by the same user
//   the job instance's key                         that instance
//   a text                                         when the job formed with the same text
//   nothing, as the user that formed the job       when the job formed without a text
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/access/caller.h"
#include "net/auth/secrets.h"

namespace tally::control {

struct JobLock {
  std::string digest{};  // of the text that the job formed with; empty: none
  // The user or the key that formed the job: "uid 1000@gpu7", "token 0123...", "the secret"; empty:
  // a peer over TCP that showed nothing.
  std::string user{};
  // True when the job formed with a token, the secret, or the text of the configuration. Otherwise
  // a rank with a token does not enter the job of another user, because any user may take a job's
  // name.
  bool is_proven = false;
  // By which the job's ranks and nodes show at its nodes that they belong to it. None at a node
  // that stands alone.
  std::optional<net::auth::PreSharedKey> key{};
};

// Returns what a lock keeps of a text, base64url. Empty for an empty text.
Result<std::string> digest_of(std::string_view text);

// Returns the lock of a job that this caller forms. `configured`: the text of the configuration,
// which is then the job's; the caller must show it, or a token. Without `configured` the caller's
// own text becomes the job's.
Result<JobLock> make_lock(const Caller& caller, const std::string& job,
                          const std::string* configured);

// Whether the caller may enter the job.
Outcome may_enter(const Caller& caller, const std::string& job, const JobLock& lock);

// Whether the caller may see the job's name, epochs and counters: it is the job's owner, shows
// something that lets it enter, or is an operator.
bool may_see(const Caller& caller, const std::string& job, const JobLock& lock);

}  // namespace tally::control
