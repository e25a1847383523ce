#include "net/tls/tls_stream.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "net/crypto/library.h"
#include "net/tls/socket_bio.h"

namespace tally::net::tls {
namespace {

struct SslDeleter {
  void operator()(SSL* stream) const { openssl::loaded().SSL_free(stream); }
};

// TLS_AES_128_GCM_SHA256 (RFC 8446, appendix B.4).
constexpr unsigned char kSuite[] = {0x13, 0x01};

// A key as OpenSSL takes it. Null when there is no memory.
SSL_SESSION* session_of(SSL* stream, const crypto::Key& key) {
  SSL_SESSION* session = openssl::loaded().SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const SSL_CIPHER* suite = openssl::loaded().SSL_CIPHER_find(stream, kSuite);
  if (suite != nullptr &&
      openssl::loaded().SSL_SESSION_set1_master_key(session, key.data(), crypto::Key::kBytes) ==
          1 &&
      openssl::loaded().SSL_SESSION_set_cipher(session, suite) == 1 &&
      openssl::loaded().SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  openssl::loaded().SSL_SESSION_free(session);
  return nullptr;
}

Stream::Failure failure_of(auth::KeyRing::Refusal refusal) {
  switch (refusal) {
    case auth::KeyRing::Refusal::kExpired:
      return Stream::Failure::kExpired;
    case auth::KeyRing::Refusal::kRevoked:
      return Stream::Failure::kRevoked;
    case auth::KeyRing::Refusal::kUnknown:
      break;
  }
  return Stream::Failure::kUnknown;
}

}  // namespace

// Its address does not change, because OpenSSL's callbacks find it by the address.
struct Stream::State {
  std::shared_ptr<const ClientContext> client;
  std::shared_ptr<const ServerContext> server;
  std::unique_ptr<SSL, SslDeleter> stream;
  bool has_handshake = false;  // it is done
  bool has_failed = false;
  int identities = 0;                // that the client's hello had
  std::optional<auth::Proof> named;  // what the client would prove with the key that it named
  std::optional<auth::Proof> proof;
  Failure failure = Failure::kNone;
  std::string reason;  // OpenSSL's or the system's
};

Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Result<Stream> Stream::make(SSL_CTX* context, int socket, std::unique_ptr<State> state) {
  state->stream.reset(openssl::loaded().SSL_new(context));
  BIO* bio = state->stream != nullptr ? make_socket_bio(socket) : nullptr;
  if (bio == nullptr) {
    return Error{Status::kNoMemory,
                 "no memory for a TLS connection: " + openssl::loaded().take_error()};
  }
  openssl::loaded().SSL_set_bio(state->stream.get(), bio, bio);
  openssl::loaded().SSL_set_ex_data(state->stream.get(), 0, state.get());
  return Stream(std::move(state));
}

Result<Stream> Stream::client(std::shared_ptr<const ClientContext> context, int socket,
                              const std::string& host) {
  SSL_CTX* raw = context->get();
  auto state = std::make_unique<State>();
  state->client = std::move(context);
  auto stream = make(raw, socket, std::move(state));
  if (!stream) return stream;
  SSL* made = stream->state_->stream.get();
  openssl::loaded().SSL_set_connect_state(made);
  X509_VERIFY_PARAM* parameters = openssl::loaded().SSL_get0_param(made);
  if (openssl::loaded().X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) != 1) {
    static_cast<void>(openssl::loaded().take_error());
    openssl::loaded().X509_VERIFY_PARAM_set1_host(parameters, host.data(), host.size());
  }
  return stream;
}

Result<Stream> Stream::server(std::shared_ptr<const ServerContext> context, int socket) {
  SSL_CTX* raw = context->get();
  auto state = std::make_unique<State>();
  state->server = std::move(context);
  auto stream = make(raw, socket, std::move(state));
  if (stream) openssl::loaded().SSL_set_accept_state(stream->state_->stream.get());
  return stream;
}

int Stream::show_key(SSL* stream, const EVP_MD* /*hash*/, const unsigned char** identity,
                     std::size_t* bytes, SSL_SESSION** session) {
  const auto* state = static_cast<const State*>(openssl::loaded().SSL_get_ex_data(stream, 0));
  const auth::PreSharedKey& key = *state->client->key();
  *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
  *bytes = key.identity.size();
  *session = session_of(stream, key.key);
  return *session != nullptr ? 1 : 0;
}

// No exception may pass through OpenSSL.
int Stream::find_key(SSL* stream, const unsigned char* identity, std::size_t bytes,
                     SSL_SESSION** session) try {
  auto* state = static_cast<State*>(openssl::loaded().SSL_get_ex_data(stream, 0));
  *session = nullptr;
  // A client of Tally's names one key. To look for more would let a stranger make the server work.
  if (++state->identities > 1 || bytes > auth::kMaxIdentity) return 0;
  const auto found = state->server->find()({reinterpret_cast<const char*>(identity), bytes});
  if (found.refusal) {
    state->failure = failure_of(*found.refusal);
    if (state->failure != Failure::kUnknown) state->named = found.proof;
    return 1;  // the handshake goes on with a certificate, or fails
  }
  state->named = found.proof;
  *session = session_of(stream, found.key);
  return *session != nullptr ? 1 : 0;
} catch (...) {
  return 0;
}

Handshake Stream::handshake() {
  if (state_->has_failed) return Handshake::kFailed;
  if (state_->has_handshake) return Handshake::kDone;
  const int returned = openssl::loaded().SSL_do_handshake(state_->stream.get());
  if (returned == 1) return finish_handshake();
  switch (end_of(returned)) {
    case End::kWantsRead:
      return Handshake::kWantsRead;
    case End::kWantsWrite:
      return Handshake::kWantsWrite;
    case End::kClosed:
      fail(Failure::kNetwork);
      break;
    case End::kFailed:
      break;
  }
  return Handshake::kFailed;
}

Handshake Stream::finish_handshake() {
  SSL* stream = state_->stream.get();
  const bool by_key = openssl::loaded().SSL_session_reused(stream) ==
                      1;  // how OpenSSL calls a handshake by a pre-shared key
  if (state_->client != nullptr) {
    if (by_key != state_->client->key().has_value()) {
      fail(Failure::kKey);
      return Handshake::kFailed;
    }
  } else if (by_key) {
    state_->proof = state_->named;
  } else {
    X509* certificate = openssl::loaded().SSL_get1_peer_certificate(stream);
    const bool good =
        certificate != nullptr && openssl::loaded().SSL_get_verify_result(stream) == X509_V_OK;
    openssl::loaded().X509_free(certificate);
    if (!good) {
      fail(Failure::kCertificate);
      return Handshake::kFailed;
    }
    state_->failure = Failure::kNone;
    state_->proof = auth::Proof{.kind = auth::Proof::Kind::kSecret, .jobs = {}, .rights = {}};
  }
  state_->named.reset();
  state_->has_handshake = true;
  return Handshake::kDone;
}

ssize_t Stream::read(char* bytes, std::size_t room) {
  std::size_t got = 0;
  if (state_->has_failed) return errno = EPIPE, -1;
  const int returned = openssl::loaded().SSL_read_ex(state_->stream.get(), bytes, room, &got);
  return returned == 1 ? static_cast<ssize_t>(got) : no_bytes(returned);
}

ssize_t Stream::write(std::string_view bytes) {
  std::size_t sent = 0;
  if (state_->has_failed) return errno = EPIPE, -1;
  const int returned =
      openssl::loaded().SSL_write_ex(state_->stream.get(), bytes.data(), bytes.size(), &sent);
  if (returned == 1) return static_cast<ssize_t>(sent);
  const ssize_t none = no_bytes(returned);
  // A connection that takes no more bytes may still have the other side's reason.
  if (state_->failure == Failure::kNetwork) {
    state_->failure = Failure::kNone;
    state_->has_failed = false;
    errno = EPIPE;
  }
  return none;
}

ssize_t Stream::no_bytes(int returned) {
  switch (end_of(returned)) {
    case End::kWantsRead:
    case End::kWantsWrite:
      errno = EAGAIN;
      return -1;
    case End::kClosed:
      return 0;
    case End::kFailed:
      break;
  }
  errno = state_->failure == Failure::kNetwork ? ECONNRESET : EPROTO;
  return -1;
}

void Stream::close() {
  if (!state_->has_handshake || state_->failure != Failure::kNone) return;
  openssl::loaded().SSL_shutdown(state_->stream.get());
  openssl::loaded().ERR_clear_error();
}

// Every call that can fail leaves the thread's queue of errors empty, because OpenSSL reads it at
// the next call.
Stream::End Stream::end_of(int returned) {
  const int number = errno;
  switch (openssl::loaded().SSL_get_error(state_->stream.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return End::kWantsRead;
    case SSL_ERROR_WANT_WRITE:
      return End::kWantsWrite;
    case SSL_ERROR_ZERO_RETURN:
      return End::kClosed;
    case SSL_ERROR_SYSCALL:
      state_->reason = number != 0 ? std::strerror(number) : "the other side hung up";
      openssl::loaded().ERR_clear_error();
      return fail(Failure::kNetwork);
    default:
      return fail(judge_failure());
  }
}

Stream::End Stream::fail(Failure failure) {
  state_->failure = failure;
  state_->has_failed = true;
  return End::kFailed;
}

Stream::Failure Stream::judge_failure() {
  const int reason = ERR_GET_REASON(openssl::loaded().ERR_peek_error());
  state_->reason = openssl::loaded().take_error();
  // A connection that ended without a goodbye: no key was judged.
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) return Failure::kNetwork;
  if (state_->failure != Failure::kNone) return state_->failure;  // find_key() knows more
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED ||
      reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    return Failure::kCertificate;
  }
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) return Failure::kWrongKey;
  const bool is_alert = reason > SSL_AD_REASON_OFFSET;  // the other side named the reason
  return is_alert && state_->client != nullptr ? Failure::kKey : Failure::kProtocol;
}

const std::optional<auth::Proof>& Stream::proof() const {
  return state_->proof;
}

Stream::Failure Stream::failure() const {
  return state_->failure;
}

std::string Stream::why() const {
  const std::string named = state_->named ? state_->named->name() : "";
  switch (state_->failure) {
    case Failure::kNone:
      return {};
    case Failure::kNetwork:
      return state_->reason;
    case Failure::kProtocol:
      return "not TLS 1.3 as it should be (" + state_->reason + ")";
    case Failure::kKey:
      return "the other side does not accept the key (" + state_->reason + ")";
    case Failure::kUnknown:
      return "it shows a key that is unknown here";
    case Failure::kExpired:
      return named + " has expired";
    case Failure::kRevoked:
      return named + " is revoked";
    case Failure::kWrongKey:
      return "it names " + named + " and does not have the key";
    case Failure::kCertificate:
      return "its certificate is missing, for another host, or not of the authority (" +
             state_->reason + ")";
  }
  return {};
}

}  // namespace tally::net::tls
