#include "net/auth/secrets.h"

#include <fmt/format.h>

namespace tally::net::auth {
namespace {

using crypto::Key;

constexpr std::string_view kSecretPrefix = "tally-secret-";
constexpr std::string_view kChosenPrefix = "secret:";
constexpr std::string_view kTokenPrefix = "tally-token-";

// The first byte of sealed rights.
constexpr char kVersion = 1;
constexpr std::size_t kIdBytes = 8;
constexpr std::size_t kTimeBytes = 8;
// The names of jobs are filled up to a multiple of this, so that the length of an identity does not
// tell their length.
constexpr std::size_t kJobStep = 32;
constexpr std::size_t kMinRights = 1 + kIdBytes + kTimeBytes + kJobStep;

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Precondition: `text` is what hexadecimal() returned.
std::string bytes_of(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string encode(const Rights& rights) {
  std::string bytes(1, kVersion);
  bytes += bytes_of(rights.id);
  for (std::size_t i = 0; i < kTimeBytes; ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(rights.expires) >> (8 * i) & 255);
  }
  bytes += rights.job;
  bytes.resize(1 + kIdBytes + kTimeBytes +
               (rights.job.size() + kJobStep - 1) / kJobStep * kJobStep);
  return bytes;
}

std::optional<Rights> decode(std::string_view bytes) {
  if (bytes.size() < kMinRights || bytes[0] != kVersion) return std::nullopt;
  Rights rights;
  rights.id = hexadecimal(bytes.substr(1, kIdBytes));
  std::uint64_t expires = 0;
  for (std::size_t i = 0; i < kTimeBytes; ++i) {
    expires |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[1 + kIdBytes + i]))
               << (8 * i);
  }
  rights.expires = static_cast<std::int64_t>(expires);
  const std::string_view job = bytes.substr(1 + kIdBytes + kTimeBytes);
  rights.job = job.substr(0, job.find('\0'));
  return rights;
}

// A key with the identity that is derived from it.
Result<PreSharedKey> derived(const Key& key, std::string_view kind) {
  auto psk = crypto::derive_key(key, "tally psk");
  if (!psk) return psk.error();
  auto identity = crypto::derive_key(key, "tally identity");
  if (!identity) return identity.error();
  return PreSharedKey{
      fmt::format("{}.{}", kind, crypto::encode_base64url(identity->view().substr(0, 12))),
      std::move(*psk)};
}

std::optional<PreSharedKey> parse_token(std::string_view text) {
  text.remove_prefix(kTokenPrefix.size());
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot > kMaxIdentity) return std::nullopt;
  const auto bytes = crypto::decode_base64url(text.substr(dot + 1));
  if (!bytes) return std::nullopt;
  auto key = Key::from_bytes(*bytes);
  if (!key) return std::nullopt;
  return PreSharedKey{std::string(text.substr(0, dot)), std::move(*key)};
}

Result<Key> token_key(const Key& secret, std::string_view identity) {
  const auto keys = crypto::derive_key(secret, "tally token keys");
  if (!keys) return keys.error();
  return crypto::derive_key(*keys, identity);
}

}  // namespace

bool Rights::covers(std::string_view name) const {
  if (job.ends_with('*')) return name.starts_with(std::string_view(job).substr(0, job.size() - 1));
  return name == job;
}

Secret Secret::generate() {
  return Secret(Key::random());
}

Result<Secret> Secret::parse(std::string_view text) {
  if (text.starts_with(kSecretPrefix)) {
    const auto bytes = crypto::decode_base64url(text.substr(kSecretPrefix.size()));
    if (auto key = bytes ? Key::from_bytes(*bytes) : std::nullopt) return Secret(std::move(*key));
    return invalid(
        "the secret begins as one of `tallyctl token secret`, but some of it is missing or "
        "changed: copy it again");
  }
  if (text.starts_with(kChosenPrefix)) {
    text.remove_prefix(kChosenPrefix.size());
    if (text.size() < kMinChosen) {
      return invalid(
          fmt::format("the secret has {} characters after \"secret:\", and at least {} are needed; "
                      "`tallyctl token secret` makes one that nobody can guess",
                      text.size(), kMinChosen));
    }
    auto key = crypto::stretch(text, "tally secret");
    if (!key) return key.error();
    return Secret(std::move(*key));
  }
  return invalid(
      "this is no secret: `tallyctl token secret` makes one (tally-secret-...); one that you "
      "choose yourself is written "
      "secret:TEXT");
}

std::string Secret::text() const {
  return fmt::format("{}{}", kSecretPrefix, crypto::encode_base64url(key_.view()));
}

Result<PreSharedKey> Secret::shown() const {
  return derived(key_, "s");
}

Result<std::string> Secret::make_token(Rights rights) const {
  if (rights.id.empty()) rights.id = hexadecimal(crypto::random_bytes(kIdBytes));
  if (rights.job.empty() || rights.job.size() > Rights::kMaxJob ||
      rights.job.find('\0') != std::string::npos) {
    return invalid(fmt::format("a token's job is a name of 1 to {} bytes", Rights::kMaxJob));
  }
  const auto sealing = crypto::derive_key(key_, "tally token rights");
  if (!sealing) return sealing.error();
  const auto sealed = crypto::seal(*sealing, encode(rights));
  if (!sealed) return sealed.error();
  PreSharedKey token{"t." + crypto::encode_base64url(*sealed), {}};
  auto key = token_key(key_, token.identity);
  if (!key) return key.error();
  token.key = std::move(*key);
  return text_of(token);
}

std::optional<Secret::Token> Secret::read_token(std::string_view identity) const {
  if (!identity.starts_with("t.") || identity.size() > kMaxIdentity) return std::nullopt;
  const auto sealed = crypto::decode_base64url(identity.substr(2));
  const auto sealing = crypto::derive_key(key_, "tally token rights");
  if (!sealed || !sealing) return std::nullopt;
  const auto plain = crypto::unseal(*sealing, *sealed);
  if (!plain) return std::nullopt;
  auto rights = decode(*plain);
  auto key = token_key(key_, identity);
  if (!rights || !key) return std::nullopt;
  return Token{std::move(*rights), std::move(*key)};
}

bool is_made_by_tally(std::string_view text) {
  return text.starts_with(kSecretPrefix) || text.starts_with(kChosenPrefix) ||
         text.starts_with(kTokenPrefix);
}

Result<PreSharedKey> shown(std::string_view text) {
  if (text.starts_with(kSecretPrefix) || text.starts_with(kChosenPrefix)) {
    const auto secret = Secret::parse(text);
    return secret ? secret->shown() : secret.error();
  }
  if (text.starts_with(kTokenPrefix)) {
    if (auto token = parse_token(text)) return std::move(*token);
    return invalid(
        "the token begins as one of `tallyctl token make`, but some of it is missing or changed: "
        "copy it "
        "again");
  }
  if (text.empty()) return invalid("the token is empty");
  const auto key = crypto::stretch(text, "tally job token");
  if (!key) return key.error();
  return derived(*key, "c");
}

PreSharedKey generate_key() {
  return {"j." + crypto::encode_base64url(crypto::random_bytes(12)), Key::random()};
}

std::string text_of(const PreSharedKey& key) {
  return fmt::format("{}{}.{}", kTokenPrefix, key.identity,
                     crypto::encode_base64url(key.key.view()));
}

std::optional<Rights> rights_of(const Secret& secret, std::string_view token) {
  if (!token.starts_with(kTokenPrefix)) return std::nullopt;
  const auto shown = parse_token(token);
  if (!shown) return std::nullopt;
  const auto read = secret.read_token(shown->identity);
  if (!read || !(read->key == shown->key)) return std::nullopt;
  return read->rights;
}

}  // namespace tally::net::auth
