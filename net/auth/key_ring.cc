#include "net/auth/key_ring.h"

#include <algorithm>

namespace tally::net::auth {

bool Proof::covers(std::string_view job) const {
  if (kind == Kind::kSecret) return true;
  return (!rights.job.empty() && rights.covers(job)) ||
         std::find(jobs.begin(), jobs.end(), job) != jobs.end();
}

std::string Proof::name() const {
  switch (kind) {
    case Kind::kSecret:
      return "the secret";
    case Kind::kToken:
      return rights.id.empty() ? "a job's configured token" : "token " + rights.id;
    case Kind::kInstance:
      return "a job's key";
  }
  return {};
}

Outcome KeyRing::add_secret(Secret secret) {
  auto shown = secret.shown();
  if (!shown) return shown.error();
  keys_.insert_or_assign(
      shown->identity, Known{shown->key, {.kind = Proof::Kind::kSecret, .jobs = {}, .rights = {}}});
  secrets_.push_back(std::move(secret));
  return Unit{};
}

Outcome KeyRing::add_chosen(std::string_view text, const std::string& job) {
  auto key = shown(text);
  if (!key) return key.error();
  Known& known = keys_[key->identity];
  known.key = std::move(key->key);
  known.proof.kind = Proof::Kind::kToken;
  known.proof.jobs.push_back(job);
  return Unit{};
}

KeyRing::Found KeyRing::find(std::string_view identity, std::int64_t now) const {
  if (const auto known = keys_.find(std::string(identity)); known != keys_.end()) {
    return {.refusal = {}, .key = known->second.key, .proof = known->second.proof};
  }
  if (identity.starts_with("j.")) {
    const crypto::Key* key = instances_ ? instances_(identity) : nullptr;
    if (key == nullptr) return {.refusal = Refusal::kUnknown, .key = {}, .proof = {}};
    return {.refusal = {},
            .key = *key,
            .proof = {.kind = Proof::Kind::kInstance,
                      .jobs = {},
                      .rights = {.id = std::string(identity), .job = {}}}};
  }
  for (const Secret& secret : secrets_) {
    auto token = secret.read_token(identity);
    if (!token) continue;
    Proof proof{.kind = Proof::Kind::kToken, .jobs = {}, .rights = std::move(token->rights)};
    const auto refusal = refusal_of(proof, now);
    return {.refusal = refusal, .key = std::move(token->key), .proof = std::move(proof)};
  }
  return {.refusal = Refusal::kUnknown, .key = {}, .proof = {}};
}

Result<std::optional<Proof>> KeyRing::prove(std::string_view text, std::int64_t now) const {
  if (!is_made_by_tally(text)) return std::optional<Proof>();
  const auto key = shown(text);
  if (!key) return key.error();
  // A node without a secret knows no tokens, so what it is shown is a text like any other.
  if (secrets_.empty() && !key->identity.starts_with("j.")) return std::optional<Proof>();
  const Found found = find(key->identity, now);
  if (found.refusal == Refusal::kUnknown && key->identity.starts_with("j.")) {
    return Error{Status::kStaleEpoch,
                 "the job of this key has no place here, or no longer: ask the coordinator again"};
  }
  const bool wrong = found.refusal == Refusal::kUnknown || !(found.key == key->key);
  if (wrong)
    return refused(
        "the token or secret is not one of this node's: was it made for another cluster?");
  if (found.refusal == Refusal::kExpired)
    return refused(found.proof.name() + " has expired: make another one");
  if (found.refusal == Refusal::kRevoked) return refused(found.proof.name() + " is revoked");
  return std::optional(found.proof);
}

std::optional<KeyRing::Refusal> KeyRing::refusal_of(const Proof& proof, std::int64_t now) const {
  if (proof.kind != Proof::Kind::kToken) return std::nullopt;
  if (is_revoked(proof.rights.id)) return Refusal::kRevoked;
  if (proof.rights.expires != 0 && proof.rights.expires <= now) return Refusal::kExpired;
  return std::nullopt;
}

}  // namespace tally::net::auth
