#include "control/cli/token_command.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/system/fd.h"
#include "control/cli/common/members.h"
#include "control/cli/common/standard_output.h"
#include "control/cli/common/tables.h"
#include "net/auth/secrets.h"

namespace tally::control {
namespace {

using net::auth::Rights;
using net::auth::Secret;
using nlohmann::json;

constexpr int kNotDone = 1;
constexpr int kWrongUsage = 2;

int complain(int status, std::string_view message) {
  fmt::print(stderr, "tallyctl: {}\n", message);
  return status;
}

Result<Secret> read_secret(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return invalid(fmt::format("{} has no secret: {}; `tallyctl token secret {}` makes one", path,
                               file.is_open() ? "it is empty" : std::strerror(errno), path));
  }
  auto secret = Secret::parse(line);
  if (!secret) return invalid(fmt::format("{}: {}", path, secret.error().message));
  return secret;
}

// Never replaces a file: nodes that have the old secret would not know the new tokens.
int make_secret(const std::string& path) {
  const std::string text = Secret::generate().text() + "\n";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    return complain(
        kNotDone,
        fmt::format("cannot make {}: {}", path,
                    errno == EEXIST ? "it is there already; remove it first if it is not in use"
                                    : std::strerror(errno)));
  }
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return complain(kNotDone, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  const std::string done = fmt::format(
      "{} has the cluster's secret: copy it to each node, and keep it from everybody else\n", path);
  return print_out(done, "tallyctl") ? 0 : kNotDone;
}

// "90s", "15m", "12h", "30d". nullopt: none of these, or more than a hundred years.
std::optional<std::int64_t> seconds_of(const std::string& span) {
  constexpr std::int64_t kMost = std::int64_t{100} * 366 * 86400;
  std::int64_t number = 0;
  std::size_t i = 0;
  for (; i < span.size() && span[i] >= '0' && span[i] <= '9' && number < kMost; ++i) {
    number = number * 10 + (span[i] - '0');
  }
  if (i == 0 || i + 1 != span.size() || number == 0) return std::nullopt;
  const std::string_view units = "smhd";
  constexpr std::int64_t kSeconds[] = {1, 60, 3600, 86400};
  const std::size_t unit = units.find(span[i]);
  if (unit == std::string_view::npos || number > kMost / kSeconds[unit]) return std::nullopt;
  return number * kSeconds[unit];
}

int make_token(const TokenArguments& arguments) {
  Rights rights{.id = {}, .job = arguments.job};
  if (!arguments.expires.empty()) {
    const auto span = seconds_of(arguments.expires);
    if (!span) {
      return complain(kWrongUsage,
                      fmt::format("--expires {}: write a number and s, m, h or d, such as 30d",
                                  arguments.expires));
    }
    rights.expires = std::time(nullptr) + *span;
  }
  const auto secret = read_secret(arguments.file);
  if (!secret) return complain(kNotDone, secret.error().message);
  const auto token = secret->make_token(std::move(rights));
  if (!token) return complain(kWrongUsage, token.error().message);
  return print_out(*token + "\n", "tallyctl") ? 0 : kNotDone;
}

int show_token(const TokenArguments& arguments) {
  const auto secret = read_secret(arguments.file);
  if (!secret) return complain(kNotDone, secret.error().message);
  const auto rights = net::auth::rights_of(*secret, arguments.token_or_id);
  if (!rights)
    return complain(kNotDone,
                    fmt::format("the secret in {} has not made this token", arguments.file));
  const std::string expires =
      rights->expires == 0 ? "never"
                           : fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(rights->expires));
  const std::string text =
      fmt::format("id {}\njob {}\nexpires {}\n", rights->id, rights->job, expires);
  return print_out(text, "tallyctl") ? 0 : kNotDone;
}

CLI::App* add_verb(CLI::App& token, TokenArguments& arguments, TokenVerb verb, const char* name,
                   const char* help) {
  auto* app = token.add_subcommand(name, help);
  app->parse_complete_callback([&arguments, verb] { arguments.verb = verb; });
  return app;
}

void add_secret_file(CLI::App& app, TokenArguments& arguments) {
  app.add_option("--secret-file", arguments.file, "the file with the cluster's secret")
      ->required()
      ->type_name("FILE");
}

}  // namespace

CLI::App* add_token(CLI::App& app, TokenArguments& arguments) {
  auto* token = app.add_subcommand(
      "token", "makes the cluster's secret, and tokens for jobs; docs/security.md");
  token->require_subcommand(1);
  add_verb(*token, arguments, TokenVerb::kSecret, "secret",
           "makes a secret, in a file that only this user can read")
      ->add_option("FILE", arguments.file, "the file to make")
      ->required();
  auto* make = add_verb(*token, arguments, TokenVerb::kMake, "make",
                        "makes a token for a job, and prints it");
  add_secret_file(*make, arguments);
  make->add_option("--job", arguments.job,
                   "the job's name; with a * at its end all names that begin so")
      ->required()
      ->type_name("NAME");
  make->add_option("--expires", arguments.expires,
                   "after this time it is not accepted: 12h, 30d; left out: never")
      ->type_name("SPAN");
  auto* show =
      add_verb(*token, arguments, TokenVerb::kShow, "show", "prints a token's id, job and end");
  add_secret_file(*show, arguments);
  show->add_option("TOKEN", arguments.token_or_id, "the token")->required();
  add_verb(*token, arguments, TokenVerb::kRevoke, "revoke",
           "makes the nodes of the cluster accept a token no more; for operators")
      ->add_option("ID", arguments.token_or_id, "the token's id (token show)")
      ->required();
  return token;
}

int run_token(const TokenArguments& arguments) {
  switch (arguments.verb) {
    case TokenVerb::kSecret:
      return make_secret(arguments.file);
    case TokenVerb::kMake:
      return make_token(arguments);
    case TokenVerb::kShow:
      return show_token(arguments);
    case TokenVerb::kRevoke:
      break;
  }
  return kWrongUsage;
}

int revoke_token(rpc::RpcChannel& channel, const TokenArguments& arguments, Nanos timeout) {
  const json params = {{"id", arguments.token_or_id}};
  const auto members = ask_members(channel, timeout);
  if (members && members->empty()) {
    const auto state =
        channel.call("cluster.coordinator", json::object(), {}, monotonic_now() + timeout);
    const std::string coordinator = state ? text_at(*state, "coordinator") : "";
    if (!coordinator.empty()) {
      return complain(
          kNotDone,
          fmt::format("{} is a member of the cluster of {}, which does not name the other members: "
                      "show the cluster's secret (--token @FILE)",
                      channel.address(), coordinator));
    }
  }
  int status = 0;
  const auto revoke = [&](rpc::RpcChannel& node) {
    const auto done = node.call("token.revoke", params, {}, monotonic_now() + timeout);
    if (!done)
      status = complain(kNotDone, fmt::format("{}: {}", node.address(), done.error().message));
  };
  if (!members || members->empty()) {
    revoke(channel);
  } else {
    for (const json& member : *members) {
      std::string address = text_at(member, "tcp");
      if (address.empty()) address = text_at(member, "unix");
      auto node = rpc::RpcChannel::connect_as_user(address, timeout);
      if (node) {
        revoke(*node);
      } else {
        status = complain(kNotDone, node.error().message);
      }
    }
  }
  if (status != 0) return status;
  const std::string done = fmt::format("token {} is revoked\n", arguments.token_or_id);
  return print_out(done, "tallyctl") ? 0 : kNotDone;
}

}  // namespace tally::control
