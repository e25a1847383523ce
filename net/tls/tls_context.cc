#include "net/tls/tls_context.h"

#include <fmt/format.h>

#include "net/crypto/library.h"
#include "net/tls/tls_stream.h"

namespace tally::net::tls {
namespace {

// The hash of a key's handshake is that of this suite (RFC 8446, section 4.2.11).
constexpr const char* kSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

Error failed(const openssl::Library& library, const char* what) {
  return {Status::kInternal, fmt::format("cannot set up TLS: {}: {}", what, library.take_error())};
}

Error bad_file(const openssl::Library& library, const char* key, const std::string& path) {
  return invalid(fmt::format("{} \"{}\" cannot be used: {}", key, path, library.take_error()));
}

Result<UniqueContext> make_context() {
  const auto library = openssl::library();
  if (!library) return library.error();
  const openssl::Library& ssl = **library;
  UniqueContext context(ssl.SSL_CTX_new(ssl.TLS_method()));
  if (context == nullptr) return failed(ssl, "SSL_CTX_new");
  SSL_CTX* raw = context.get();
  ssl.SSL_CTX_ctrl(raw, SSL_CTRL_MODE,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                       SSL_MODE_RELEASE_BUFFERS,
                   nullptr);
  ssl.SSL_CTX_ctrl(raw, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  ssl.SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  // These are OpenSSL's defaults, but the system's openssl.cnf can change them.
  ssl.SSL_CTX_clear_options(raw, SSL_OP_ALLOW_NO_DHE_KEX);
  const bool done =
      ssl.SSL_CTX_ctrl(raw, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
      ssl.SSL_CTX_set_max_early_data(raw, 0) == 1 && ssl.SSL_CTX_set_num_tickets(raw, 0) == 1 &&
      ssl.SSL_CTX_set_ciphersuites(raw, kSuites) == 1;
  if (!done) return failed(ssl, "TLS 1.3");
  return context;
}

Outcome use_files(SSL_CTX* context, const CertificateFiles& files) {
  const openssl::Library& ssl = openssl::loaded();
  if (files.certificate.empty() || files.private_key.empty() || files.authority.empty()) {
    return invalid(fmt::format(
        "certificates need all three of certificate (\"{}\"), private_key (\"{}\") and authority "
        "(\"{}\")",
        files.certificate, files.private_key, files.authority));
  }
  if (ssl.SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return bad_file(ssl, "certificate", files.certificate);
  }
  if (ssl.SSL_CTX_use_PrivateKey_file(context, files.private_key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return bad_file(ssl, "private_key", files.private_key);
  }
  if (ssl.SSL_CTX_check_private_key(context) != 1) {
    static_cast<void>(ssl.take_error());
    return invalid(fmt::format("private_key \"{}\" does not belong to certificate \"{}\"",
                               files.private_key, files.certificate));
  }
  if (ssl.SSL_CTX_load_verify_file(context, files.authority.c_str()) != 1) {
    return bad_file(ssl, "authority", files.authority);
  }
  return Unit{};
}

}  // namespace

void ContextDeleter::operator()(SSL_CTX* context) const {
  openssl::loaded().SSL_CTX_free(context);
}

Result<std::shared_ptr<const ClientContext>> ClientContext::with_key(auth::PreSharedKey key) {
  auto context = make_context();
  if (!context) return context.error();
  const openssl::Library& ssl = openssl::loaded();
  // A server that does not know the key could go on with a certificate. No certificate is good
  // enough.
  ssl.SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  ssl.SSL_CTX_set_psk_use_session_callback(context->get(), Stream::show_key);
  auto made = std::make_shared<ClientContext>();
  made->context_ = std::move(*context);
  made->key_ = std::move(key);
  return std::shared_ptr<const ClientContext>(std::move(made));
}

Result<std::shared_ptr<const ClientContext>> ClientContext::with_certificates(
    const CertificateFiles& files) {
  auto context = make_context();
  if (!context) return context.error();
  if (auto used = use_files(context->get(), files); !used) return used.error();
  openssl::loaded().SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER, nullptr);
  auto made = std::make_shared<ClientContext>();
  made->context_ = std::move(*context);
  return std::shared_ptr<const ClientContext>(std::move(made));
}

Result<std::shared_ptr<const ServerContext>> ServerContext::make(Find find,
                                                                 const CertificateFiles& files) {
  auto context = make_context();
  if (!context) return context.error();
  const openssl::Library& ssl = openssl::loaded();
  if (files.any()) {
    if (auto used = use_files(context->get(), files); !used) return used.error();
    ssl.SSL_CTX_set_verify(context->get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                           nullptr);
    // With a verified peer OpenSSL takes no session, and so no key, without a context.
    constexpr unsigned char kContext[] = "tally";
    ssl.SSL_CTX_set_session_id_context(context->get(), kContext, sizeof kContext);
  }
  ssl.SSL_CTX_set_psk_find_session_callback(context->get(), Stream::find_key);
  auto made = std::make_shared<ServerContext>();
  made->context_ = std::move(*context);
  made->find_ = std::move(find);
  return std::shared_ptr<const ServerContext>(std::move(made));
}

}  // namespace tally::net::tls
