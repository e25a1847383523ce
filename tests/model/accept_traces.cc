// Replays the traces of files, or of the standard input (replay.h). README.md has their format.
//
// usage: accept_traces [FILE]...
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "tests/model/replay.h"
#include "tests/support/client/scripted_node.h"

namespace tally::traces {
namespace {

constexpr int kMostPrinted = 5;

// The control connections of all nodes. It gives each region the number that the rank wishes.
nlohmann::json answer_as_node(const std::string& method, const nlohmann::json& params) {
  static std::atomic<std::uint32_t> last_region = 100;
  nlohmann::json result = nlohmann::json::object();
  if (method == "region.register") {
    result["region"] = params.contains("region") ? params["region"].get<std::uint32_t>()
                                                 : 100 + ++last_region % 10'000;
  }
  return {{"result", std::move(result)}};
}

bool accepts(const Trace& trace, const ReplayServers& servers, bool prints) {
  try {
    Replay(trace, servers).run();
    return true;
  } catch (const Disagreement& why) {
    if (prints) fmt::print("{}\n{}\n", trace.header.text, why.what());
  }
  return false;
}

int accept_all(const std::vector<Trace>& traces) {
  const client::ScriptedNode node(fmt::format("/tmp/tally-traces-node-{}", ::getpid()),
                                  answer_as_node);
  ReplayServers servers;
  servers.node_address = node.address();
  int refused = 0;
  std::size_t inputs = 0;
  for (const Trace& trace : traces) {
    inputs += trace.lines.size();
    if (!accepts(trace, servers, refused < kMostPrinted)) ++refused;
  }
  fmt::print("{} traces with {} events: {} disagree with the code\n", traces.size(), inputs,
             refused);
  return refused == 0 && !traces.empty() ? 0 : 1;
}

int replay_files(int count, char** names) {
  std::vector<Trace> traces;
  if (count < 2) traces = read_traces(std::cin);
  for (int i = 1; i < count; ++i) {
    std::ifstream file(names[i]);
    if (!file) throw BadTrace(fmt::format("{} cannot be read", names[i]));
    for (Trace& trace : read_traces(file)) traces.push_back(std::move(trace));
  }
  return accept_all(traces);
}

}  // namespace
}  // namespace tally::traces

int main(int argc, char** argv) {
  try {
    return tally::traces::replay_files(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "accept_traces: {}\n", error.what());
    return 2;
  }
}
