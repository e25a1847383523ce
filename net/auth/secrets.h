// The texts by which a process proves who it is: the secret of a cluster, tokens made from it, and
// texts that a person chose. Each gives a pre-shared key for TLS 1.3 (RFC 8446, section 4.2.11)
// with the identity under which the other side knows it. docs/security.md explains who may do what
// with which of them.
//
//   tally-secret-K      the secret of a cluster, made by Tally: 256 random bits
//   secret:TEXT         the secret of a cluster, chosen by a person
//   tally-token-I.K     a token: the identity I is its rights, encrypted by the secret; K is its
//   key any other text      a job's token in a configuration, chosen by a person
//
// K and I are base64url. Nodes keep no list of tokens: a node that has the secret reads the rights
// from the identity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto/crypto.h"

namespace tally::net::auth {

// Bytes. RFC 8446 permits longer identities; a token of Tally's stays below.
inline constexpr std::size_t kMaxIdentity = 512;

struct PreSharedKey {
  std::string identity;  // random to all who do not know the secret
  crypto::Key key;
};

// What a token permits.
struct Rights {
  static constexpr std::size_t kMaxJob = 128;
  static constexpr std::size_t kIdDigits = 16;

  std::string id;            // names the token in logs and for revoking: 16 hexadecimal digits
  std::string job;           // the name of a job; with a `*` at its end all names that begin so
  std::int64_t expires = 0;  // seconds since 1970; 0: never

  bool covers(std::string_view name) const;
};

class Secret {
 public:
  static Secret generate();
  // Takes the first two forms of text above. The error of another text names both forms. Of a
  // chosen text it takes those with kMinChosen bytes or more.
  static Result<Secret> parse(std::string_view text);
  static constexpr std::size_t kMinChosen = 12;

  // Returns the text that parse() takes. Only for secrets of generate().
  std::string text() const;

  // What a holder of the secret shows.
  Result<PreSharedKey> shown() const;

  // Makes a token with these rights. Returns its text. `rights.id` is made when it is empty.
  Result<std::string> make_token(Rights rights) const;

  struct Token {
    Rights rights;
    crypto::Key key;
  };
  // Reads a token's identity. nullopt: it was not made with this secret. Does not look at the time.
  std::optional<Token> read_token(std::string_view identity) const;

 private:
  explicit Secret(crypto::Key key) : key_(std::move(key)) {}

  crypto::Key key_;
};

// Whether the text has one of the forms that Tally makes, or is a chosen secret.
bool is_made_by_tally(std::string_view text);

// Returns what the owner of this text shows. The text has any of the forms above.
Result<PreSharedKey> shown(std::string_view text);

// Returns a key that shown() reads from text(). The coordinator makes one for each job instance and
// gives it to the job's nodes and ranks, over connections that are secured themselves.
PreSharedKey generate_key();
// Returns the text of such a key. It has the form of a token.
std::string text_of(const PreSharedKey& key);

// Returns the rights of a token's text. nullopt: this secret did not make it.
std::optional<Rights> rights_of(const Secret& secret, std::string_view token);

}  // namespace tally::net::auth
