#include "control/config/config.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/system/fd.h"
#include "base/text/nearest.h"
#include "base/units.h"
#include "control/config/config_checks.h"
#include "control/config/config_keys.h"
#include "control/machine/memory_limit.h"
#include "dataplane/wire/notice.h"
#include "net/address.h"

namespace tally::control {
namespace {

constexpr std::uint32_t kMaxDerivedShards = 8;
constexpr std::uint32_t kMaxWeight = 1000;
constexpr std::array<std::string_view, 4> kJobKeys = {"name", "token", "weight", "ranks"};

std::string position(std::string_view path, const toml::source_position& at) {
  return fmt::format("{}:{}:{}", path, at.line, at.column);
}

std::string place(std::string_view path, const toml::node& node) {
  return position(path, node.source().begin);
}

Written written(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return {integer->get()};
  if (const auto* truth = node.as_boolean()) return {truth->get()};
  if (const auto* text = node.as_string()) return {text->get()};
  if (node.is_table()) return {Unusable{"a table"}};
  if (node.is_array()) return {Unusable{"an array"}};
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return {Unusable{text.str()}};
}

// "; leave it out for 4MiB" when the default is not empty.
std::string remedy(const Key& key) {
  Config defaults;
  const std::string value = value_text(key, defaults);
  return value == "\"\"" ? std::string() : fmt::format("; leave it out for {}", value);
}

const Key* find_key(std::string_view table, std::string_view name) {
  for (const Key& key : config_keys()) {
    if (key.table == table && key.name == name) return &key;
  }
  return nullptr;
}

// Why there is no such key: it belongs to another table, or it is misspelt. Else the text lists the
// known keys.
std::string explain_unknown(std::string_view table, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Key& key : config_keys()) {
    if (key.table == table) known.push_back(key.name);
    if (key.name == name) {
      return key.table.empty() ? fmt::format("\"{}\" belongs at the top of the file", name)
                               : fmt::format("\"{}\" belongs in [{}]", name, key.table);
    }
  }
  if (table == "cluster" && name == "token") {
    return "nodes show the secret of security.secret_file instead: write the token into that file "
           "as secret:TOKEN, or "
           "make a secret with `tallyctl token secret`";
  }
  if (table == "jobs") known.assign(kJobKeys.begin(), kJobKeys.end());
  if (table.empty())
    known.insert(known.end(),
                 {"shards", "network", "cluster", "security", "memory", "limits", "jobs"});
  if (const auto near = nearest(name, known); !near.empty()) {
    return fmt::format("did you mean \"{}\"?", near);
  }
  std::string list;
  for (const auto word : known) list += fmt::format("{}{}", list.empty() ? "" : ", ", word);
  return fmt::format("known here: {}", list);
}

Error unknown(std::string_view path, const toml::key& key, std::string_view table) {
  return invalid(fmt::format("{}: unknown key \"{}\"{}: {}", position(path, key.source().begin),
                             key.str(), table.empty() ? "" : fmt::format(" in [{}]", table),
                             explain_unknown(table, key.str())));
}

bool has_table(std::string_view name) {
  const auto& keys = config_keys();
  return std::any_of(keys.begin(), keys.end(),
                     [name](const Key& key) { return !name.empty() && key.table == name; });
}

class Reader {
 public:
  Reader(std::string_view path, Config& config, Places& places)
      : path_(path), config_(config), places_(places) {}

  Outcome read(const toml::table& file) {
    for (const auto& [key, node] : file) {
      if (key == "jobs") {
        if (auto done = read_jobs(node); !done) return done;
      } else if (has_table(key.str())) {
        if (auto done = read_table(key.str(), node); !done) return done;
      } else if (auto done = read_value("", key, node); !done) {
        return done;
      }
    }
    return Unit{};
  }

 private:
  Outcome read_table(std::string_view table, const toml::node& node) {
    if (!node.is_table()) {
      return invalid(fmt::format("{}: \"{}\" is {}: must be a table, [{}] on a line of its own",
                                 place(path_, node), table, shown(written(node)), table));
    }
    for (const auto& [key, value] : *node.as_table()) {
      if (auto done = read_value(table, key, value); !done) return done;
    }
    return Unit{};
  }

  Outcome read_value(std::string_view table, const toml::key& name, const toml::node& node) {
    const Key* key = find_key(table, name.str());
    if (key == nullptr) return unknown(path_, name, table);
    const Written value = written(node);
    const std::string wrong = assign(*key, config_, value);
    places_[key->path()] = place(path_, node);
    if (wrong.empty()) return Unit{};
    return invalid(fmt::format("{}: {} = {}{}{}", place(path_, node), key->path(),
                               is_secret(*key) ? "(not shown)" : shown(value), wrong,
                               remedy(*key)));
  }

  Outcome read_jobs(const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr || !list->is_homogeneous(toml::node_type::table)) {
      return invalid(fmt::format(
          "{}: jobs must be tables, each under [[jobs]] on a line of its own", place(path_, node)));
    }
    for (const toml::node& job : *list) {
      if (auto done = read_job(*job.as_table()); !done) return done;
    }
    return Unit{};
  }

  Outcome read_job(const toml::table& table) {
    ConfiguredJob job;
    for (const auto& [key, node] : table) {
      const Written value = written(node);
      std::string wrong;
      if (key == "name" || key == "token") {
        std::string& target = key == "name" ? job.name : job.token;
        wrong = read_name(value, target);
      } else if (key == "weight") {
        wrong = read_count(value, {.min = 1, .max = kMaxWeight}, job.weight);
      } else if (key == "ranks") {
        wrong =
            read_count(value, {.min = 1, .max = wire::kMaxRanks, .zero_allowed = true}, job.ranks);
      } else {
        return unknown(path_, key, "jobs");
      }
      if (!wrong.empty()) {
        const std::string value_shown = key == "token" ? "(not shown)" : shown(value);
        return invalid(
            fmt::format("{}: jobs.{} = {}{}", place(path_, node), key.str(), value_shown, wrong));
      }
    }
    if (job.name.empty())
      return invalid(fmt::format("{}: a job needs a name", place(path_, table)));
    for (const ConfiguredJob& other : config_.jobs) {
      if (other.name == job.name) {
        return invalid(fmt::format("{}: job \"{}\" is listed twice: remove one",
                                   place(path_, table), job.name));
      }
    }
    places_["jobs"] = place(path_, table);
    places_[job_text(job)] = place(path_, table);
    config_.jobs.push_back(std::move(job));
    return Unit{};
  }

  static std::string read_name(const Written& value, std::string& target) {
    const auto* text = std::get_if<std::string>(&value.value);
    const bool good = text != nullptr && !text->empty() && text->size() <= kMaxName &&
                      std::all_of(text->begin(), text->end(), [](char c) {
                        return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
                      });
    if (!good) return wrong_text(value, kMaxName);
    target = *text;
    return {};
  }

  static std::string read_count(const Written& value, const NumberKey& key, std::uint32_t& target) {
    const auto number = read_number(key, value);
    if (!number) return wrong_number(key, value);
    target = static_cast<std::uint32_t>(*number);
    return {};
  }

  std::string_view path_;
  Config& config_;
  Places& places_;
};

Outcome apply(std::span<const Override> overrides, Config& config, Places& places) {
  for (const Override& given : overrides) {
    const auto& keys = config_keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&given](const Key& candidate) {
      return !candidate.flag.empty() && candidate.flag == given.flag;
    });
    if (key == keys.end()) return invalid(fmt::format("--{}: there is no such flag", given.flag));
    const Written value{given.value, /*from_flag=*/true};
    const std::string wrong = assign(*key, config, value);
    if (!wrong.empty()) {
      return invalid(fmt::format("--{} {}{}{}", given.flag, given.value, wrong, remedy(*key)));
    }
    places[key->path()] = fmt::format("--{}", given.flag);
  }
  return Unit{};
}

std::uint32_t derived_shards() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) return 1;
  return std::clamp(static_cast<std::uint32_t>(CPU_COUNT(&cpus)), 1u, kMaxDerivedShards);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

void derive(Config& config) {
  if (config.listen.empty()) config.listen = net::default_listen_address();
  if (config.shards == 0) {
    const auto rails = static_cast<std::uint32_t>(between_commas(config.rails).size());
    config.shards = std::clamp(rails, derived_shards(), engine::kMaxShards);
  }
  if (config.engine_mib == 0) {
    // Half for the tiles of all windows, and half for everything else.
    const std::uint64_t windows = config.shards * config.window_bytes;
    config.engine_mib = static_cast<std::uint32_t>(std::max<std::uint64_t>(16, 2 * windows / kMib));
  }
  if (config.cluster.name.empty()) config.cluster.name = host_name();
  if (config.cluster.host.empty()) config.cluster.host = host_name();
  auto& limits = config.limits;
  if (limits.node_region_bytes == 0) limits.node_region_bytes = memory_for_peers(memory_limit());
  if (limits.max_region_bytes == 0) limits.max_region_bytes = limits.node_region_bytes;
}

// Returns 0, or the error number.
int read_file(const std::string& path, std::string& text) {
  constexpr std::size_t kMaxBytes = 1 << 20;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno;
  char buffer[4096];
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count == 0) return 0;
    if (count < 0) return errno;
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > kMaxBytes) return EFBIG;
  }
}

}  // namespace

std::vector<std::string> between_commas(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    const auto first = word.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    list.push_back(word.substr(first, word.find_last_not_of(' ') - first + 1));
  }
  return list;
}

FaultTimeouts Config::timeouts() const {
  return {.fault = fault_timeout_s * kSecond, .own_deadline = default_deadline_ms * kMillisecond};
}

std::vector<std::string> ClusterConfig::addresses() const {
  return between_commas(coordinators);
}

Result<Config> parse_config(std::string_view text, std::string_view path,
                            std::span<const Override> overrides) {
  Config config;
  Places places;
  try {
    const toml::table file = toml::parse(text, path);
    if (auto done = Reader(path, config, places).read(file); !done) return done.error();
  } catch (const toml::parse_error& error) {
    return invalid(
        fmt::format("{}: not TOML: {}", position(path, error.source().begin), error.description()));
  }
  if (auto done = apply(overrides, config, places); !done) return done.error();
  derive(config);
  if (auto done = check_config(config, places); !done) return done.error();
  if (config.security.insecure && !config.listen_tcp.empty()) {
    config.warnings.push_back(fmt::format(
        "insecure: everybody who reaches {} can use this node, and can see and change its jobs",
        config.listen_tcp));
  }
  return config;
}

Result<Config> load_config(const std::string& path, std::span<const Override> overrides) {
  if (path.empty()) return parse_config("", "", overrides);
  std::string text;
  if (const int failed = read_file(path, text); failed != 0) {
    return invalid(
        fmt::format("cannot read the configuration {}: {}; give --config a file that this "
                    "user can read",
                    path, std::strerror(failed)));
  }
  auto config = parse_config(text, path, overrides);
  if (!config) return config;
  struct stat info {};
  const bool has_tokens = std::any_of(config->jobs.begin(), config->jobs.end(),
                                      [](const ConfiguredJob& job) { return !job.token.empty(); });
  if (has_tokens && ::stat(path.c_str(), &info) == 0 && (info.st_mode & S_IROTH) != 0) {
    config->warnings.push_back(
        fmt::format("{0} has tokens and everybody can read it: chmod o-r {0}", path));
  }
  return config;
}

std::string to_toml(const Config& config) {
  Config copy = config;
  std::string text;
  std::string_view table;
  for (const Key& key : config_keys()) {
    if (key.table != table) text += fmt::format("\n[{}]\n", key.table);
    table = key.table;
    if (is_secret(key)) {
      if (value_text(key, copy) != "\"\"")
        text += fmt::format("# {} is set, and not shown\n", key.name);
      continue;
    }
    text += fmt::format("{} = {}  # {}\n", key.name, value_text(key, copy), key.help);
  }
  for (const ConfiguredJob& job : config.jobs) {
    text += fmt::format("\n[[jobs]]\nname = {}\n", quoted_text(job.name));
    if (!job.token.empty()) text += "# token is set, and not shown\n";
    text += fmt::format("weight = {}\nranks = {}\n", job.weight, job.ranks);
  }
  return text;
}

}  // namespace tally::control
