#include "control/plan/json/pipeline_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/plan/json/document.h"

namespace tally::plan {
namespace {

using nlohmann::ordered_json;
using pipeline::Block;

constexpr std::size_t kLongestLabel = 256;  // bytes
constexpr double kMostBytes = 1e18;
constexpr double kMostSeconds = 1e9;

double number_between(const Value& value, double least, double most, std::string_view must) {
  const double number = value.number(must);
  if (number >= least && number <= most) return number;
  value.refuse(must);
  return least;
}

double bytes_of(const Value& entry, std::string_view key) {
  return number_between(entry.member(key), 0, kMostBytes, "bytes, 0 to 1e18");
}

double bandwidth_of(const Value& value) {
  return number_between(value, 1, 1e15, "bytes per second, 1 to 1e15");
}

// One time for each GPU type.
std::vector<double> seconds_of(const Value& list, std::size_t types) {
  std::vector<double> seconds;
  const std::size_t size = list.size(pipeline::kMaxTypes);
  if (size != types) list.refuse(fmt::format("a list of {} times, one for each type", types));
  for (std::size_t i = 0; i < size; ++i) {
    seconds.push_back(number_between(list.entry(i), 0, kMostSeconds, "seconds, 0 to 1e9"));
  }
  seconds.resize(types);
  return seconds;
}

Block read_block(const Value& entry, std::size_t types, double input) {
  entry.expect_object({"name", "forward", "backward", "output", "stash", "kept", "weights"});
  Block block;
  if (entry.has("name")) block.name = entry.member("name").text(kLongestLabel);
  const std::vector<double> forward = seconds_of(entry.member("forward"), types);
  const std::vector<double> backward = seconds_of(entry.member("backward"), types);
  for (std::size_t i = 0; i < types; ++i) block.times.push_back({forward[i], backward[i]});
  block.output = bytes_of(entry, "output");
  block.stash = bytes_of(entry, "stash");
  block.kept = entry.has("kept") ? bytes_of(entry, "kept") : input;
  block.weights = bytes_of(entry, "weights");
  return block;
}

std::vector<std::string> read_types(const Value& list) {
  std::vector<std::string> types;
  const std::size_t size = list.size(pipeline::kMaxTypes);
  if (size == 0) list.refuse("a list of at least one GPU type");
  for (std::size_t i = 0; i < size; ++i) {
    const Value entry = list.entry(i);
    std::string type = entry.text(kLongestLabel);
    if (type.empty() || std::find(types.begin(), types.end(), type) != types.end()) {
      entry.refuse("a type that is not in the list yet, and not empty");
    }
    types.push_back(std::move(type));
  }
  return types;
}

GpuSet read_gpu_set(const Value& entry) {
  entry.expect_object({"type", "speed", "memory", "count"});
  GpuSet set;
  set.type = entry.member("type").text(kLongestLabel);
  if (entry.has("speed")) {
    set.speed = number_between(entry.member("speed"), 1e-6, 1e6,
                               "1 for the times of the profile, 2 for half of them, 1e-6 to 1e6");
  }
  if (entry.has("memory")) {
    set.memory = number_between(entry.member("memory"), 1, kMostBytes, "bytes, 1 to 1e18");
  }
  if (entry.has("count")) {
    set.count = static_cast<std::size_t>(
        entry.member("count").integer(1, static_cast<std::int64_t>(pipeline::kMaxGpus)));
  }
  return set;
}

Server read_server(const Value& entry, const std::vector<Server>& before) {
  entry.expect_object({"name", "nic", "inside", "gpus"});
  Server server;
  const Value name = entry.member("name");
  server.name = name.text(kLongestLabel);
  const bool is_known = std::any_of(before.begin(), before.end(),
                                    [&](const Server& other) { return other.name == server.name; });
  if (is_known || server.name.empty()) name.refuse("a name that no other server has, not empty");
  if (entry.has("nic")) server.nic = bandwidth_of(entry.member("nic"));
  if (entry.has("inside")) server.inside = bandwidth_of(entry.member("inside"));
  const Value gpus = entry.member("gpus");
  const std::size_t count = gpus.size(pipeline::kMaxGpus);
  if (count == 0) gpus.refuse("a list of at least one kind of GPU");
  for (std::size_t i = 0; i < count; ++i) server.gpus.push_back(read_gpu_set(gpus.entry(i)));
  return server;
}

ServerPair read_server_pair(const Value& entry, const std::vector<Server>& servers) {
  entry.expect_object({"between", "speed"});
  ServerPair pair;
  const Value between = entry.member("between");
  if (between.size(2) != 2) {
    between.refuse("a list of two servers");
    return pair;
  }
  const auto place = [&](std::size_t i) {
    const Value value = between.entry(i);
    const std::string name = value.text(kLongestLabel);
    for (std::size_t s = 0; s < servers.size(); ++s) {
      if (servers[s].name == name) return s;
    }
    value.refuse("the name of one of the servers");
    return std::size_t{0};
  };
  pair.first = place(0);
  pair.second = place(1);
  if (pair.first == pair.second) between.refuse("two different servers");
  pair.speed = bandwidth_of(entry.member("speed"));
  return pair;
}

std::string line_of(const ordered_json& entry, bool is_last) {
  return "  " + entry.dump(-1, ' ', false, ordered_json::error_handler_t::replace) +
         (is_last ? "\n" : ",\n");
}

ordered_json block_line(const Block& block) {
  ordered_json forward = ordered_json::array(), backward = ordered_json::array();
  for (const pipeline::Times& times : block.times) {
    forward.push_back(times.forward);
    backward.push_back(times.backward);
  }
  return {{"name", block.name},      {"forward", forward},   {"backward", backward},
          {"output", block.output},  {"stash", block.stash}, {"kept", block.kept},
          {"weights", block.weights}};
}

ordered_json server_line(const Server& server) {
  ordered_json entry = {{"name", server.name}};
  if (server.nic > 0) entry["nic"] = server.nic;
  if (server.inside > 0) entry["inside"] = server.inside;
  for (const GpuSet& set : server.gpus) {
    ordered_json gpu = {{"type", set.type}, {"speed", set.speed}};
    if (set.memory < pipeline::kUnlimited) gpu["memory"] = set.memory;
    gpu["count"] = set.count;
    entry["gpus"].push_back(std::move(gpu));
  }
  return entry;
}

std::string quoted(const std::string& text) {
  return ordered_json(text).dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

}  // namespace

Result<ProfileFile> read_profile(std::string_view text) {
  const auto document = parse_document(text, kMaxProfileBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  file.expect_format(kProfileFormat);
  file.expect_object({"fmt", "model", "microbatch", "types", "blocks"});
  if (mistake.any()) return invalid(mistake.text());
  ProfileFile read;
  if (file.has("model")) read.model = file.member("model").text(kLongestLabel);
  if (file.has("microbatch")) {
    read.microbatch =
        number_between(file.member("microbatch"), 1e-9, 1e9, "samples, above 0, up to 1e9");
  }
  read.profile.types = read_types(file.member("types"));
  const Value blocks = file.member("blocks");
  const std::size_t count = blocks.size(kMaxProfileBlocks);
  if (count == 0) blocks.refuse("a list of at least one block");
  double input = 0;
  for (std::size_t i = 0; i < count && !mistake.any(); ++i) {
    read.profile.blocks.push_back(read_block(blocks.entry(i), read.profile.types.size(), input));
    input = read.profile.blocks.back().output;
  }
  if (mistake.any()) return invalid(mistake.text());
  return read;
}

std::string write_profile(const ProfileFile& file) {
  const ordered_json types = file.profile.types;
  std::string text =
      fmt::format("{{\"fmt\":\"{}\",\"model\":{},\"microbatch\":{},\"types\":{},\n \"blocks\":[\n",
                  kProfileFormat, quoted(file.model), ordered_json(file.microbatch).dump(),
                  types.dump(-1, ' ', true, ordered_json::error_handler_t::replace));
  for (std::size_t i = 0; i < file.profile.blocks.size(); ++i) {
    text += line_of(block_line(file.profile.blocks[i]), i + 1 == file.profile.blocks.size());
  }
  return text + " ]}\n";
}

Result<GpuFile> read_gpus(std::string_view text) {
  const auto document = parse_document(text, kMaxProfileBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  file.expect_format(kGpusFormat);
  file.expect_object({"fmt", "servers", "pairs"});
  if (mistake.any()) return invalid(mistake.text());
  GpuFile read;
  const Value servers = file.member("servers");
  const std::size_t count = servers.size(pipeline::kMaxGpus);
  if (count == 0) servers.refuse("a list of at least one server");
  for (std::size_t i = 0; i < count && !mistake.any(); ++i) {
    read.servers.push_back(read_server(servers.entry(i), read.servers));
  }
  if (file.has("pairs")) {
    const Value pairs = file.member("pairs");
    const std::size_t most = pairs.size(pipeline::kMaxGpus * pipeline::kMaxGpus);
    for (std::size_t i = 0; i < most && !mistake.any(); ++i) {
      read.pairs.push_back(read_server_pair(pairs.entry(i), read.servers));
    }
  }
  if (mistake.any()) return invalid(mistake.text());
  return read;
}

std::string write_gpus(const GpuFile& file) {
  std::string text = fmt::format("{{\"fmt\":\"{}\",\n \"servers\":[\n", kGpusFormat);
  for (std::size_t i = 0; i < file.servers.size(); ++i) {
    text += line_of(server_line(file.servers[i]), i + 1 == file.servers.size());
  }
  text += " ],\n \"pairs\":[\n";
  for (std::size_t i = 0; i < file.pairs.size(); ++i) {
    const ServerPair& pair = file.pairs[i];
    text += line_of({{"between", {file.servers[pair.first].name, file.servers[pair.second].name}},
                     {"speed", pair.speed}},
                    i + 1 == file.pairs.size());
  }
  return text + " ]}\n";
}

namespace {

// The speed between GPUs of two servers, or of one; 0 when the file does not give it.
double speed_between(const GpuFile& file, std::size_t a, std::size_t b) {
  if (a == b) return file.servers[a].inside;
  double speed = std::min(file.servers[a].nic, file.servers[b].nic);
  for (const ServerPair& pair : file.pairs) {
    if (std::minmax(pair.first, pair.second) == std::minmax(a, b)) speed = pair.speed;
  }
  return speed;
}

Error unknown_speed(const GpuFile& file, std::size_t a, std::size_t b) {
  if (a == b) {
    return invalid(
        fmt::format("servers[{}] = {}: has several GPUs; give it \"inside\", the bytes "
                    "per second between two of them",
                    a, quoted(file.servers[a].name)));
  }
  return invalid(
      fmt::format("servers {} and {}: the speed between them is not known; give both "
                  "\"nic\", or give them an entry in \"pairs\"",
                  quoted(file.servers[a].name), quoted(file.servers[b].name)));
}

}  // namespace

Result<pipeline::Cluster> cluster_of(const GpuFile& file, const pipeline::Profile& profile) {
  pipeline::Cluster cluster;
  for (std::size_t s = 0; s < file.servers.size(); ++s) {
    std::size_t number = 0;  // of a GPU in its server
    for (std::size_t k = 0; k < file.servers[s].gpus.size(); ++k) {
      const GpuSet& set = file.servers[s].gpus[k];
      const auto type = std::find(profile.types.begin(), profile.types.end(), set.type);
      if (type == profile.types.end()) {
        return invalid(
            fmt::format("servers[{}].gpus[{}].type = {}: must be a type of the profile: "
                        "profile the model on such a GPU, or give the type of another "
                        "and a \"speed\"",
                        s, k, quoted(set.type)));
      }
      for (std::size_t i = 0; i < set.count; ++i) {
        cluster.gpus.push_back({fmt::format("{}/{}", file.servers[s].name, number++),
                                static_cast<std::size_t>(type - profile.types.begin()), set.speed,
                                set.memory, s});
      }
    }
  }
  const std::size_t count = cluster.gpus.size();
  if (count > pipeline::kMaxGpus) {
    return invalid(
        fmt::format("{} GPUs: must be at most {}; plan for a part of them, and run "
                    "several such pipelines",
                    count, pipeline::kMaxGpus));
  }
  cluster.bandwidth.assign(count * count, 0);
  for (std::size_t u = 0; u < count; ++u) {
    for (std::size_t v = 0; v < count; ++v) {
      if (u == v) continue;
      const std::size_t a = cluster.gpus[u].server, b = cluster.gpus[v].server;
      const double speed = speed_between(file, a, b);
      if (speed == 0) return unknown_speed(file, a, b);
      cluster.bandwidth[u * count + v] = speed;
    }
  }
  return cluster;
}

}  // namespace tally::plan
