// What strangers send before they are known: the texts and identities of keys, and the bytes of a
// handshake, in TLS or in clear. Nothing of it is accepted, for none of it comes from who has the
// secret.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/system/fd.h"
#include "net/auth/key_ring.h"
#include "net/server/door.h"
#include "net/tls/tls_context.h"
#include "tests/fuzz/input.h"

namespace {

using tally::UniqueFd;
using tally::fuzz::require;
using tally::net::auth::KeyRing;
using tally::net::auth::Proof;
using tally::net::auth::Secret;

constexpr std::int64_t kNow = 1'800'000'000;

// A secret that the inputs do not have.
KeyRing& ring() {
  static KeyRing* const kRing = [] {
    auto* made = new KeyRing();
    require(made->add_secret(Secret::generate()).ok(), "a secret can be added");
    return made;
  }();
  return *kRing;
}

void read_texts(std::string_view text) {
  namespace crypto = tally::net::crypto;
  if (const auto bytes = crypto::decode_base64url(text)) {
    require(crypto::encode_base64url(*bytes) == text, "each text of bytes has one form");
  }
  // The identity of the secret is public, and a fuzzer finds it by the comparisons. Those of tokens
  // are sealed.
  const auto found = ring().find(text, kNow);
  require(found.refusal == KeyRing::Refusal::kUnknown || found.proof.kind == Proof::Kind::kSecret,
          "no token is known");
  // A chosen secret takes a tenth of a second.
  if (text.starts_with("secret:") || !tally::net::auth::is_made_by_tally(text)) return;
  require(!ring().prove(text, kNow).ok(), "no text proves anything");
  if (const auto shown = tally::net::auth::shown(text)) {
    require(text.starts_with("tally-secret-") || tally::net::auth::text_of(*shown) == text,
            "a token has one form");
  }
}

void open_door(std::string_view bytes) {
  static const tally::rpc::Security kSecurity{
      .tls = *tally::net::tls::ServerContext::make(
          [](std::string_view identity) { return ring().find(identity, kNow); }, {}),
      .plaintext = false};
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
          "sockets are left");
  const UniqueFd here(ends[0]);
  const UniqueFd there(ends[1]);
  tally::rpc::Door door(kSecurity, there.get(), true);
  // In two pieces, as a network may carry it.
  const std::size_t half = bytes.size() / 2;
  for (const std::string_view piece : {bytes.substr(0, half), bytes.substr(half)}) {
    static_cast<void>(!::send(here.get(), piece.data(), piece.size(), MSG_NOSIGNAL));
    const auto step = door.step();
    require(step != tally::rpc::Door::Step::kOpen, "no stranger comes in");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  if (data[0] % 2 == 0) {
    read_texts(rest);
  } else {
    open_door(rest);
  }
  return 0;
}
