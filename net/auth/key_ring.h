// The keys that a node accepts, and what each proves. Pure but for the time, which is an argument.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "net/auth/secrets.h"

namespace tally::net::auth {

// What a peer has proved by a key.
struct Proof {
  enum class Kind : std::uint8_t {
    kSecret,    // it has the cluster's secret, or a certificate of the cluster's authority
    kToken,     // it has a token
    kInstance,  // it is a rank or a node of a job instance
  };
  Kind kind = Kind::kSecret;
  std::vector<std::string> jobs;  // of a configured token: the jobs that have it
  Rights rights;  // of kToken: of the token. Of kInstance: `id` is the key's identity. Of kSecret:
                  // empty

  // Whether the proof permits to open the job with this name.
  bool covers(std::string_view job) const;
  // For log lines: "the secret", "token 0123456789abcdef", "a job's key".
  std::string name() const;
};

class KeyRing {
 public:
  // Why an identity is not accepted.
  enum class Refusal : std::uint8_t { kUnknown, kExpired, kRevoked };
  struct Found {
    std::optional<Refusal> refusal;  // when set, `proof` is set too unless it is kUnknown
    crypto::Key key;
    Proof proof;
  };

  // Accepts who shows the secret, and tokens made from it.
  Outcome add_secret(Secret secret);
  // Accepts a token that a person chose for a job.
  Outcome add_chosen(std::string_view text, const std::string& job);
  // Accepts the keys of job instances: `find` returns the key of this identity, or null.
  void set_instances(std::function<const crypto::Key*(std::string_view identity)> find) {
    instances_ = std::move(find);
  }
  // From now on the token with this id is not accepted.
  void revoke(const std::string& id) { revoked_.insert(id); }
  bool is_revoked(const std::string& id) const { return revoked_.contains(id); }
  const std::set<std::string>& revoked() const { return revoked_; }

  // Whether anything is accepted.
  bool empty() const { return keys_.empty(); }
  const std::vector<Secret>& secrets() const { return secrets_; }

  // `now`: seconds since 1970.
  Found find(std::string_view identity, std::int64_t now) const;
  // What a text proves that a request shows: a token, the secret, or a job instance's key. nullopt:
  // it has none of these forms, so it is a text that a person chose. An error: it has such a form,
  // and is not accepted. kStaleEpoch: it is the key of a job instance that is not here, not yet or
  // no longer.
  Result<std::optional<Proof>> prove(std::string_view text, std::int64_t now) const;
  // Whether what was proved before still holds: the token has neither expired nor been revoked.
  std::optional<Refusal> refusal_of(const Proof& proof, std::int64_t now) const;

 private:
  struct Known {
    crypto::Key key;
    Proof proof;
  };
  std::vector<Secret> secrets_;
  std::unordered_map<std::string, Known> keys_;  // by identity
  std::function<const crypto::Key*(std::string_view)> instances_;
  std::set<std::string> revoked_;
};

}  // namespace tally::net::auth
