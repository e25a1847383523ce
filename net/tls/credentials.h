// What a client shows to nodes: a token, the cluster's secret, certificates, or nothing. Cheap to
// copy; copies share what is made once. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/auth/secrets.h"
#include "net/tls/tls_context.h"

namespace tally::net::tls {

class Credentials {
 public:
  // Shows nothing.
  Credentials() = default;
  // Shows what this text proves (net/auth/secrets.h). An empty text shows nothing.
  explicit Credentials(std::string text);
  // Shows this key.
  explicit Credentials(auth::PreSharedKey key);
  explicit Credentials(CertificateFiles files);

  // Returns what a client shows that was given `text` by an option: that text, or the first line of
  // FILE for "@FILE". For an empty `text`: $TALLY_TOKEN in the same way, or the certificates of
  // $TALLY_TLS_CERTIFICATE, $TALLY_TLS_KEY and $TALLY_TLS_AUTHORITY, or nothing. With
  // $TALLY_INSECURE=1 it speaks in clear over TCP, and shows the text there.
  static Result<Credentials> of_user(std::string_view text = {});

  // Returns what shows this key instead, in clear where these would be.
  Credentials with_key(auth::PreSharedKey key) const;

  // Whether there is anything to show.
  bool any() const { return shared_ != nullptr; }
  // Whether connections over TCP are in clear: there is nothing to show, or the user wants it so.
  bool in_clear() const { return shared_ == nullptr || insecure_; }
  // Whether the user wants connections in clear ($TALLY_INSECURE).
  bool is_insecure() const { return insecure_; }
  // The text, for a connection that needs no TLS. Empty when there is none.
  std::string text() const;
  // For a connection by TLS. The error says what is wrong with the text or with a file.
  Result<std::shared_ptr<const ClientContext>> context() const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;
  bool insecure_ = false;
};

}  // namespace tally::net::tls
