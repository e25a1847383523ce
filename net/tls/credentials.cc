#include "net/tls/credentials.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

namespace tally::net::tls {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.empty()) {
    return invalid(fmt::format("the token's file \"{}\" cannot be read: {}", path,
                               file.is_open() ? "it is empty" : std::strerror(errno)));
  }
  return line;
}

}  // namespace

// The context is made when it is needed, because a text that a person chose takes a tenth of a
// second.
struct Credentials::Shared {
  std::string text;
  CertificateFiles files;
  std::optional<auth::PreSharedKey> key;
  std::once_flag once;
  std::optional<Result<std::shared_ptr<const ClientContext>>> context;

  Result<std::shared_ptr<const ClientContext>> make() const {
    if (files.any()) return ClientContext::with_certificates(files);
    if (key) return ClientContext::with_key(*key);
    auto of_text = auth::shown(text);
    if (!of_text) return of_text.error();
    return ClientContext::with_key(std::move(*of_text));
  }
};

Credentials::Credentials(std::string text) {
  if (text.empty()) return;
  shared_ = std::make_shared<Shared>();
  shared_->text = std::move(text);
}

Credentials::Credentials(auth::PreSharedKey key) : shared_(std::make_shared<Shared>()) {
  shared_->text = auth::text_of(key);
  shared_->key = std::move(key);
}

Credentials::Credentials(CertificateFiles files) : shared_(std::make_shared<Shared>()) {
  shared_->files = std::move(files);
}

Result<Credentials> Credentials::of_user(std::string_view text) {
  std::string given = text.empty() ? environment("TALLY_TOKEN") : std::string(text);
  if (given.starts_with('@')) {
    auto line = first_line(given.substr(1));
    if (!line) return line.error();
    given = std::move(*line);
  }
  Credentials credentials(std::move(given));
  if (!credentials.any()) {
    CertificateFiles files{.certificate = environment("TALLY_TLS_CERTIFICATE"),
                           .private_key = environment("TALLY_TLS_KEY"),
                           .authority = environment("TALLY_TLS_AUTHORITY")};
    if (files.any()) credentials = Credentials(std::move(files));
  }
  const std::string insecure = environment("TALLY_INSECURE");
  if (insecure != "" && insecure != "0" && insecure != "1") {
    return invalid(fmt::format("$TALLY_INSECURE is \"{}\": it can be 0 or 1", insecure));
  }
  credentials.insecure_ = insecure == "1";
  return credentials;
}

Credentials Credentials::with_key(auth::PreSharedKey key) const {
  Credentials other(std::move(key));
  other.insecure_ = in_clear();
  return other;
}

std::string Credentials::text() const {
  return shared_ != nullptr ? shared_->text : "";
}

Result<std::shared_ptr<const ClientContext>> Credentials::context() const {
  std::call_once(shared_->once, [this] { shared_->context = shared_->make(); });
  return *shared_->context;
}

}  // namespace tally::net::tls
