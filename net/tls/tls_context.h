// What one side of TLS 1.3 connections (RFC 8446) shows and accepts: pre-shared keys, certificates,
// or both. No other version, no session tickets, no early data, and always an ephemeral key
// exchange (psk_dhe_ke), so that who learns a key later cannot read what was recorded. A context is
// made once and used by many streams of one thread.
#pragma once

#include <openssl/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/auth/key_ring.h"
#include "net/auth/secrets.h"

namespace tally::net::tls {

// Files in PEM form. `certificate` has the chain, `authority` the certificates of who signs the
// other side's.
struct CertificateFiles {
  std::string certificate;
  std::string private_key;
  std::string authority;

  bool any() const { return !certificate.empty() || !private_key.empty() || !authority.empty(); }
};

struct ContextDeleter {
  void operator()(SSL_CTX* context) const;
};
using UniqueContext = std::unique_ptr<SSL_CTX, ContextDeleter>;

// The client's side.
class ClientContext {
 public:
  // Shows this key, and accepts a server that proves to have it too.
  static Result<std::shared_ptr<const ClientContext>> with_key(auth::PreSharedKey key);
  // Shows a certificate, and accepts a server whose certificate is for its host and of the
  // authority.
  static Result<std::shared_ptr<const ClientContext>> with_certificates(
      const CertificateFiles& files);

  SSL_CTX* get() const { return context_.get(); }
  // None: certificates.
  const std::optional<auth::PreSharedKey>& key() const { return key_; }

 private:
  UniqueContext context_;
  std::optional<auth::PreSharedKey> key_;
};

// The server's side.
class ServerContext {
 public:
  // Finds a key that a client names; called once for each handshake.
  using Find = std::function<auth::KeyRing::Found(std::string_view identity)>;

  // With files it also accepts certificates of their authority, which count as the secret.
  static Result<std::shared_ptr<const ServerContext>> make(Find find,
                                                           const CertificateFiles& files);

  SSL_CTX* get() const { return context_.get(); }
  const Find& find() const { return find_; }

 private:
  UniqueContext context_;
  Find find_;
};

}  // namespace tally::net::tls
