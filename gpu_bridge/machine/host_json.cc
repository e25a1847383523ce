#include "gpu_bridge/machine/host_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/lp/lp.h"
#include "control/plan/json/document.h"
#include "gpu_bridge/machine/host_hwloc.h"

namespace tally::host {
namespace {

using plan::Mistake;
using plan::Value;

constexpr std::size_t kLongestName = 256;  // bytes
constexpr std::string_view kNoClp =
    "this build has no Clp, which finds the shares of the least time, so the plan has only equal "
    "shares and single GPUs: install coinor-libclp-dev and build again";

double speed_of(const Value& entry, std::string_view key) {
  const Value value = entry.member(key);
  const double speed = value.speed();
  if (std::isfinite(speed) && speed >= kMinSpeed && speed <= kMaxSpeed) return speed;
  value.refuse("bytes per second, 1 to 1e15");
  return kMinSpeed;
}

double known_speed_of(const Value& entry, std::string_view key) {
  return entry.has(key) ? speed_of(entry, key) : 0;
}

struct BothWays {
  double there = kMinSpeed;
  double back = kMinSpeed;
};

// "speed" for both ways, or one key for each way.
BothWays speeds_of(const Value& entry, std::string_view there, std::string_view back) {
  if (entry.has("speed") && (entry.has(there) || entry.has(back))) {
    entry.refuse(fmt::format("given either \"speed\", or \"{}\" and \"{}\"", there, back));
  }
  if (entry.has(there) || entry.has(back)) return {speed_of(entry, there), speed_of(entry, back)};
  const double speed = speed_of(entry, "speed");
  return {speed, speed};
}

// Fills in a host from the lists of the file.
class Reader {
 public:
  explicit Reader(Host& host) : host_(host) {}

  void read(const Value& file, bool has_hwloc) {
    each(file, "numa", kMaxNumaNodes, [&](const Value& entry) { numa(entry, has_hwloc); });
    if (!has_hwloc) {
      each(file, "switches", kMaxSwitches,
           [&](const Value& entry) { device(entry, Kind::kSwitch); });
      each(file, "gpus", kMaxGpus, [&](const Value& entry) { device(entry, Kind::kGpu); });
      each(file, "nics", kMaxNics, [&](const Value& entry) { device(entry, Kind::kNic); });
    }
    each(file, "nvswitches", kMaxNvswitches, [&](const Value& entry) {
      entry.expect_object({"name"});
      add(entry, Kind::kNvswitch);
    });
    each(file, "sockets", kMaxNumaNodes * kMaxNumaNodes, [&](const Value& entry) {
      join(entry, Bus::kSocket, "NUMA nodes", [](Kind kind) { return kind == Kind::kNuma; });
    });
    each(file, "nvlinks", kMaxNvlinks, [&](const Value& entry) {
      join(entry, Bus::kNvlink, "GPUs or NVSwitches",
           [](Kind kind) { return kind == Kind::kGpu || kind == Kind::kNvswitch; });
    });
    each(file, "ports", kMaxNics, [&](const Value& entry) { port(entry); });
  }

 private:
  template <typename Read>
  void each(const Value& file, std::string_view key, std::size_t most, Read&& read_entry) {
    if (!file.has(key)) return;
    const Value list = file.member(key);
    const std::size_t count = list.size(most);
    for (std::size_t i = 0; i < count; ++i) {
      const Value entry = list.entry(i);
      read_entry(entry);
    }
  }

  VertexId add(const Value& entry, Kind kind) {
    const Value name = entry.member("name");
    Vertex vertex{kind, name.text(kLongestName)};
    if (vertex.name.empty() || host_.find(vertex.name) != kNone) {
      name.refuse("a name that nothing else of the machine has, and not empty");
    }
    host_.vertices.push_back(std::move(vertex));
    return static_cast<VertexId>(host_.vertices.size() - 1);
  }

  void numa(const Value& entry, bool has_hwloc) {
    entry.expect_object({"name", "sum", "peer"});
    VertexId id = kNone;
    if (has_hwloc) {
      const Value name = entry.member("name");
      id = named(name, "one of the NUMA nodes", [](Kind kind) { return kind == Kind::kNuma; });
      if (id == kNone) return;
      if (!described_.insert(id).second) return name.refuse("a NUMA node that is not given before");
    } else {
      id = add(entry, Kind::kNuma);
    }
    host_.vertices[id].sum = known_speed_of(entry, "sum");
    host_.vertices[id].peer = known_speed_of(entry, "peer");
  }

  void device(const Value& entry, Kind kind) {
    entry.expect_object({"name", "under", "speed", "up", "down"});
    const Value under = entry.member("under");
    const VertexId parent =
        named(under, "a NUMA node or of a switch above it in the file",
              [](Kind one) { return one == Kind::kNuma || one == Kind::kSwitch; });
    const BothWays speeds = speeds_of(entry, "up", "down");
    const VertexId id = add(entry, kind);
    if (parent == kNone) return;
    host_.vertices[id].under = parent;
    host_.links.push_back({id, parent, Bus::kPcie, speeds.there});
    host_.links.push_back({parent, id, Bus::kPcie, speeds.back});
  }

  // `what`: what may be at both ends, in the plural.
  template <typename Fits>
  void join(const Value& entry, Bus bus, std::string_view what, Fits&& fits) {
    entry.expect_object({"between", "speed", "forward", "back"});
    const Value between = entry.member("between");
    if (between.size(2) != 2)
      return between.refuse(fmt::format("a list of the names of two {}", what));
    const Value first = between.entry(0), second = between.entry(1);
    const std::string one = fmt::format("one of the {}", what);
    const VertexId from = named(first, one, fits), to = named(second, one, fits);
    const BothWays speeds = speeds_of(entry, "forward", "back");
    if (from == kNone || to == kNone) return;
    if (from == to) return between.refuse(fmt::format("two different {}", what));
    const auto is_nvswitch = [&](VertexId id) {
      return host_.vertices[id].kind == Kind::kNvswitch;
    };
    // Routes go over one NVSwitch, because those of a machine count as one.
    if (is_nvswitch(from) && is_nvswitch(to)) {
      return between.refuse("two GPUs, or a GPU and an NVSwitch");
    }
    set(between, {from, to, bus, speeds.there});
    set(between, {to, from, bus, speeds.back});
  }

  // Adds the link. An assumed link is replaced; any other must not exist.
  void set(const Value& between, const Link& link) {
    for (Link& other : host_.links) {
      if (other.from != link.from || other.to != link.to || other.bus != link.bus) continue;
      if (!other.is_assumed) {
        return between.refuse("a pair that is not given before; add up the speeds of its links");
      }
      other = link;
      return;
    }
    host_.links.push_back(link);
  }

  void port(const Value& entry) {
    entry.expect_object({"nic", "speed", "out", "in"});
    const Value name = entry.member("nic");
    const VertexId nic =
        named(name, "one of the NICs", [](Kind kind) { return kind == Kind::kNic; });
    const BothWays speeds = speeds_of(entry, "out", "in");
    if (nic == kNone) return;
    const VertexId network = host_.all(Kind::kNetwork).front();
    for (const Link& link : host_.links) {
      if (link.from == nic && link.to == network)
        return name.refuse("a NIC whose port is not given before");
    }
    host_.links.push_back({nic, network, Bus::kPort, speeds.there});
    host_.links.push_back({network, nic, Bus::kPort, speeds.back});
  }

  // `what`: the end of "must be the name of ...".
  template <typename Fits>
  VertexId named(const Value& value, std::string_view what, Fits&& fits) {
    const VertexId id = host_.find(value.text(kLongestName));
    if (id != kNone && fits(host_.vertices[id].kind)) return id;
    value.refuse(fmt::format("the name of {}", what));
    return kNone;
  }

  Host& host_;
  std::set<VertexId> described_;  // NUMA nodes of hwloc's that the file has described
};

Result<Host> read_base(const Value& file, const ReadFile& read_file) {
  const Value name = file.member("hwloc");
  const std::string path = name.text(4096);
  const auto text = read_file(path);
  if (!text) return invalid(fmt::format("hwloc: {}", text.error().message));
  auto host = read_hwloc(*text);
  if (!host) return invalid(fmt::format("hwloc = \"{}\": {}", path, host.error().message));
  return host;
}

Result<Host> read_machine(std::string_view text, const ReadFile& read_file) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '<') return read_hwloc(text);
  const auto document = plan::parse_document(text, kMaxHostBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  file.expect_format(kHostFormat);
  const bool has_hwloc = file.has("hwloc");
  if (has_hwloc) {
    file.expect_object(
        {"fmt", "name", "hwloc", "numa", "sockets", "nvswitches", "nvlinks", "ports"});
  } else {
    file.expect_object({"fmt", "name", "numa", "sockets", "switches", "gpus", "nics", "nvswitches",
                        "nvlinks", "ports"});
  }
  if (mistake.any()) return invalid(mistake.text());
  Host host;
  if (has_hwloc && !mistake.any()) {
    auto base = read_base(file, read_file);
    if (!base) return base;
    host = std::move(base).value();
  } else {
    host.vertices.push_back({Kind::kNetwork, "network"});
  }
  if (file.has("name")) host.name = file.member("name").text(kLongestName);
  if (!mistake.any()) Reader(host).read(file, has_hwloc);
  if (mistake.any()) return invalid(mistake.text());
  if (auto joined = check(host); !joined) return joined.error();
  return host;
}

void add_notes(Host& host) {
  const auto assumed = std::find_if(host.links.begin(), host.links.end(),
                                    [](const Link& link) { return link.is_assumed; });
  if (assumed != host.links.end()) {
    host.notes.push_back(fmt::format(
        "links between NUMA nodes without a known speed, such as {} - {}, are assumed to have {} "
        "GB/s each way; give their speeds in \"sockets\" of a JSON file with \"hwloc\"",
        host.vertices[assumed->from].name, host.vertices[assumed->to].name, assumed->speed / 1e9));
  }
  if (!lp::is_available()) host.notes.emplace_back(kNoClp);
}

}  // namespace

Result<Host> read_host(std::string_view text, const ReadFile& read_file) {
  auto host = read_machine(text, read_file);
  if (host) add_notes(*host);
  return host;
}

}  // namespace tally::host
