#include "net/auth/key_ring.h"

namespace tally::net::auth {

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
  keys_.insert_or_assign(shown->identity, Known{shown->key, {.kind = Proof::Kind::kSecret, .rights = {}}});
  secrets_.push_back(std::move(secret));
  return Unit{};
}

Outcome KeyRing::add_chosen(std::string_view text, const std::string& job) {
  auto key = shown(text);
  if (!key) return key.error();
  keys_.insert_or_assign(
      key->identity, Known{key->key, {.kind = Proof::Kind::kToken, .rights = {.id = {}, .job = job}}});
  return Unit{};
}

void KeyRing::add_instance(const PreSharedKey& key, const std::string& job) {
  keys_.insert_or_assign(
      key.identity, Known{key.key, {.kind = Proof::Kind::kInstance, .rights = {.id = {}, .job = job}}});
}

void KeyRing::remove_instance(const std::string& identity) {
  keys_.erase(identity);
}

KeyRing::Found KeyRing::find(std::string_view identity, std::int64_t now) const {
  if (const auto known = keys_.find(std::string(identity)); known != keys_.end()) {
    return {.refusal = {}, .key = known->second.key, .proof = known->second.proof};
  }
  for (const Secret& secret : secrets_) {
    auto token = secret.read_token(identity);
    if (!token) continue;
    Proof proof{.kind = Proof::Kind::kToken, .rights = std::move(token->rights)};
    const auto refusal = refusal_of(proof, now);
    return {.refusal = refusal, .key = std::move(token->key), .proof = std::move(proof)};
  }
  return {.refusal = Refusal::kUnknown, .key = {}, .proof = {}};
}

std::optional<KeyRing::Refusal> KeyRing::refusal_of(const Proof& proof, std::int64_t now) const {
  if (proof.kind != Proof::Kind::kToken) return std::nullopt;
  if (is_revoked(proof.rights.id)) return Refusal::kRevoked;
  if (proof.rights.expires != 0 && proof.rights.expires <= now) return Refusal::kExpired;
  return std::nullopt;
}

}  // namespace tally::net::auth
