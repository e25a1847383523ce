#include "perf/run/run_secret.h"

#include <string_view>

#include "net/auth/key_ring.h"
#include "net/auth/secrets.h"
#include "net/tls/credentials.h"

namespace tally::perf {
namespace {

using net::auth::KeyRing;

// Accepts who shows the same.
Result<std::shared_ptr<const net::tls::ServerContext>> context_of(const std::string& token) {
  auto key = net::auth::shown(token);
  if (!key) return key.error();
  const auto find = [key = std::move(*key)](std::string_view identity) {
    KeyRing::Found found;
    if (identity == key.identity) {
      found.key = key.key;
    } else {
      found.refusal = KeyRing::Refusal::kUnknown;
    }
    return found;
  };
  return net::tls::ServerContext::make(find, {});
}

}  // namespace

Result<RunSecret> choose_secret(const Options& options, bool starts_node) {
  const auto credentials = net::tls::Credentials::of_user(options.token);
  if (!credentials) return credentials.error();
  RunSecret chosen{.token = credentials->text(), .secret = {}, .tls = {}};
  if (credentials->is_insecure()) return chosen;
  if (chosen.token.empty() && !options.serve.empty()) {
    return invalid(
        "--serve: give the same secret at every host by --token or $TALLY_TOKEN (secret:TEXT, or "
        "one of `tallyctl token "
        "secret`), or set TALLY_INSECURE=1 at every host");
  }
  if (chosen.token.empty()) chosen.token = net::auth::Secret::generate().text();
  if (starts_node) {
    const auto secret = net::auth::Secret::parse(chosen.token);
    if (!secret) {
      return invalid("--token or $TALLY_TOKEN is to be the secret of the node that this starts: " +
                     secret.error().message);
    }
    chosen.secret = chosen.token;
  }
  if (options.serve.empty()) return chosen;
  auto context = context_of(chosen.token);
  if (!context) return context.error();
  chosen.tls = std::move(*context);
  return chosen;
}

}  // namespace tally::perf
