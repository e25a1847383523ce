#include "control/access/job_lock.h"

#include <fmt/format.h>

namespace tally::control {
namespace {

using net::auth::Proof;

Error not_for(const Proof& proof, const std::string& job) {
  return refused(fmt::format("job \"{}\": {} is not for this job", job, proof.name()));
}

Error taken(const std::string& job, const JobLock& lock) {
  return refused(fmt::format(
      "job \"{}\" was formed without a token, by {}: all ranks of a job show a token for it; or "
      "take another name",
      job, lock.user.empty() ? "a peer over TCP" : lock.user));
}

Error wrong_token(const std::string& job) {
  return refused(fmt::format("job \"{}\": wrong token", job));
}

}  // namespace

Result<std::string> digest_of(std::string_view text) {
  if (text.empty()) return std::string();
  const auto key = net::crypto::derive_key({}, text);
  if (!key) return key.error();
  return net::crypto::encode_base64url(key->view());
}

Result<JobLock> make_lock(const Caller& caller, const std::string& job,
                          const std::string* configured) {
  JobLock lock{.digest = {},
               .user = caller.user,
               .is_proven = configured != nullptr || caller.proof,
               .key = {}};
  const auto own = digest_of(caller.text);
  if (!own) return own.error();
  if (configured != nullptr) {
    auto its = digest_of(*configured);
    if (!its) return its.error();
    lock.digest = std::move(*its);
  }
  if (caller.proof) {
    if (caller.proof->kind == Proof::Kind::kInstance || !caller.proof->covers(job))
      return not_for(*caller.proof, job);
    if (lock.user.empty()) lock.user = caller.proof->name();
    return lock;
  }
  if (configured != nullptr && !net::crypto::same(lock.digest, *own)) return wrong_token(job);
  lock.digest = *own;
  return lock;
}

Outcome may_enter(const Caller& caller, const std::string& job, const JobLock& lock) {
  if (caller.proof && caller.proof->kind == Proof::Kind::kInstance) {
    if (lock.key && lock.key->identity == caller.proof->rights.id) return Unit{};
    return not_for(*caller.proof, job);
  }
  if (caller.proof) {
    if (!caller.proof->covers(job)) return not_for(*caller.proof, job);
    const bool is_own = !lock.user.empty() && lock.user == caller.user;
    return lock.is_proven || is_own ? Outcome(Unit{}) : taken(job, lock);
  }
  const auto own = digest_of(caller.text);
  if (!own) return own.error();
  if (!net::crypto::same(lock.digest, *own)) return wrong_token(job);
  if (!lock.digest.empty() || lock.user.empty() || lock.user == caller.user) return Unit{};
  return refused(
      fmt::format("job \"{}\" belongs to {}: another user needs a token for it (docs/security.md)",
                  job, lock.user));
}

bool may_see(const Caller& caller, const std::string& job, const JobLock& lock) {
  if (caller.is_operator) return true;
  if (!caller.user.empty() && caller.user == lock.user) return true;
  return caller.proof && may_enter(caller, job, lock).ok();
}

}  // namespace tally::control
