// One end of a TLS 1.3 connection over a non-blocking socket. No function waits.
#pragma once

#include <openssl/types.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/auth/key_ring.h"
#include "net/tls/tls_context.h"

using SSL_SESSION = struct ssl_session_st;  // as openssl/ssl.h declares it

namespace tally::net::tls {

// The first byte that a client of TLS sends (RFC 8446, section 5.1: a handshake record).
inline constexpr unsigned char kFirstByte = 22;

enum class Handshake : std::uint8_t {
  kDone,
  kWantsRead,   // repeat the call when the socket is readable
  kWantsWrite,  // repeat the call when the socket is writable
  kFailed,      // failure() says why
};

// One thread at a time uses a stream.
class Stream {
 public:
  enum class Failure : std::uint8_t {
    kNone,
    kNetwork,   // the connection broke
    kProtocol,  // the other side does not speak TLS 1.3 as it should
    kKey,  // the other side does not accept the key or the certificate, or does not prove its own
    kUnknown,      // at the server: it knows no such key
    kExpired,      // at the server: the token has expired
    kRevoked,      // at the server: the token was revoked
    kWrongKey,     // at the server: the client named a known key and does not have it
    kCertificate,  // the other side's certificate is missing, or not of the authority
  };

  // Each borrows the socket, which must outlive the stream. The client checks that a certificate is
  // for `host`, a name or a numeric address.
  static Result<Stream> client(std::shared_ptr<const ClientContext> context, int socket,
                               const std::string& host);
  static Result<Stream> server(std::shared_ptr<const ServerContext> context, int socket);

  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  Handshake handshake();
  // As read(2) and write(2) of a non-blocking socket: the number of bytes; -1 and errno, EAGAIN
  // when the socket is not ready; read() returns 0 when the other side has ended the connection.
  ssize_t read(char* bytes, std::size_t room);
  ssize_t write(std::string_view bytes);
  // Sends the end of the data, if the socket has room for it.
  void close();

  // What the client has proved. Empty before the handshake is done, and at the client's end.
  const std::optional<auth::Proof>& proof() const;
  Failure failure() const;
  // The reason in words, for a log line or a message: "the token has expired".
  std::string why() const;

 private:
  friend class ClientContext;
  friend class ServerContext;
  struct State;

  explicit Stream(std::unique_ptr<State> state);
  static Result<Stream> make(SSL_CTX* context, int socket, std::unique_ptr<State> state);
  // Callbacks of OpenSSL.
  static int show_key(SSL* ssl, const EVP_MD* hash, const unsigned char** identity,
                      std::size_t* bytes, SSL_SESSION** session);
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t bytes,
                      SSL_SESSION** session);

  // How a call of OpenSSL ended that did not succeed.
  enum class End : std::uint8_t { kWantsRead, kWantsWrite, kClosed, kFailed };
  End end_of(int returned);
  End fail(Failure failure);
  Failure judge_failure();
  Handshake finish_handshake();
  ssize_t no_bytes(int returned);

  std::unique_ptr<State> state_;
};

}  // namespace tally::net::tls
