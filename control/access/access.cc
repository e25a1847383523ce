#include "control/access/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "base/log/log.h"
#include "base/text/quoted.h"

namespace tally::control {
namespace {

using net::auth::KeyRing;
using net::auth::Proof;

// What changes the cluster or its members' work, or uses up a machine. A name that ends with a dot
// stands for all methods that begin so.
constexpr std::array<std::string_view, 7> kOperatorMethods = {
    "cluster.join", "cluster.next", "cluster.report", "cluster.drain",
    "plan.set",     "probe.",       "token."};

bool is_for_operators(std::string_view method) {
  return std::any_of(kOperatorMethods.begin(), kOperatorMethods.end(), [&](std::string_view name) {
    return name.ends_with('.') ? method.starts_with(name) : method == name;
  });
}

bool opens_job(std::string_view method) {
  return method == "job.open" || method == "job.resume";
}

// Methods of who has a session or a place in a job already. A token that ends in the middle of a
// job ends no job.
bool goes_on(std::string_view method) {
  return (method.starts_with("session.") && method != "session.open") ||
         method.starts_with("region.") || (method.starts_with("job.") && !opens_job(method));
}

bool is_id(std::string_view text) {
  return text.size() == net::auth::Rights::kIdDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Outcome Access::read_revoked() {
  if (revoked_file_.empty()) return Unit{};
  std::ifstream file(revoked_file_);
  if (!file.is_open() && errno == ENOENT) return Unit{};
  for (std::string id; std::getline(file, id);) {
    if (!id.empty()) keys_.revoke(id);
  }
  if (file.eof()) return Unit{};
  return invalid(fmt::format("security.revoked_file \"{}\" cannot be read: {}", revoked_file_,
                             std::strerror(errno)));
}

Outcome Access::revoke(const std::string& id) {
  if (!is_id(id)) {
    return invalid(fmt::format(
        "{} is no id of a token: `tallyctl token show` prints it, {} hexadecimal digits",
        quoted(id, "\\x%02x"), net::auth::Rights::kIdDigits));
  }
  if (keys_.is_revoked(id)) return Unit{};
  keys_.revoke(id);
  log::warning("token-revoked", {{"token", id}});
  if (revoked_file_.empty()) return Unit{};
  std::ofstream file(revoked_file_, std::ios::app);
  file << id << '\n' << std::flush;
  if (file) return Unit{};
  return Error{Status::kInternal, fmt::format("token {} is revoked until the node ends: "
                                              "security.revoked_file \"{}\" cannot be written: "
                                              "{}",
                                              id, revoked_file_, std::strerror(errno))};
}

std::int64_t Access::now() {
  return std::time(nullptr);
}

Caller Access::caller(const rpc::Peer& peer) const {
  const bool has_secret = peer.proof && peer.proof->kind == Proof::Kind::kSecret;
  return {.is_operator = peer.is_operator || has_secret || (insecure_ && !peer.is_local()),
          .user = peer.is_local() ? peer.source + "@" + host_ : "",
          .proof = peer.proof,
          .text = {}};
}

Result<Caller> Access::caller(const rpc::Peer& peer, const std::string& token) const {
  Caller caller = this->caller(peer);
  if (token.empty()) return caller;
  if (wrong_.must_wait(peer.source, monotonic_now())) {
    return Error{
        Status::kAgain,
        fmt::format("too many wrong tokens came from {}: try again in a second", peer.source)};
  }
  auto proof = keys_.prove(token, now());
  if (!proof) return proof.error();
  if (*proof) {
    caller.proof = std::move(*proof);
  } else {
    caller.text = token;
  }
  return caller;
}

Outcome Access::may_call(const rpc::Peer& peer, std::string_view method) const {
  const Caller who = caller(peer);
  if (who.proof && !goes_on(method)) {
    if (const auto refusal = keys_.refusal_of(*who.proof, now())) {
      return refused(
          fmt::format("{}: {} {}", method, who.proof->name(),
                      *refusal == KeyRing::Refusal::kRevoked ? "is revoked" : "has expired"));
    }
  }
  if (who.is_operator || !is_for_operators(method)) return Unit{};
  return refused(
      fmt::format("{} is for operators: root or the node's own user at its Unix socket, or who "
                  "shows the cluster's "
                  "secret (--token, $TALLY_TOKEN)",
                  method));
}

void Access::audit(const rpc::Peer& peer, std::string_view method, const Error& error) {
  if (error.status != Status::kRefused) return;
  constexpr std::string_view kReason = "access-refused";
  if (opens_job(method) || method == "session.open" || method == "session.prove") {
    wrong_.add(peer.source, monotonic_now());
  }
  if (limiter_.allows(kReason, monotonic_now())) {
    log::warning("access-refused",
                 {{"peer", peer.name}, {"method", method}, {"reason", error.message}});
  }
  for (const auto& [left, lines] : limiter_.take_left_out(monotonic_now())) {
    log::warning("lines-left-out", {{"lines", lines}, {"reason", left}});
  }
}

}  // namespace tally::control
