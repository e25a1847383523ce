// Gives each fuzzer the inputs that were kept from its runs. A fuzzer ends the process when
// something is wrong, and the last line names its input.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

extern "C" {
// As libFuzzer's LLVMFuzzerTestOneInput; the build gives each fuzzer's a name of its own.
int fuzz_wire(const std::uint8_t*, std::size_t);
int fuzz_ring(const std::uint8_t*, std::size_t);
int fuzz_protocol(const std::uint8_t*, std::size_t);
int fuzz_rpc(const std::uint8_t*, std::size_t);
int fuzz_config(const std::uint8_t*, std::size_t);
int fuzz_plan(const std::uint8_t*, std::size_t);
int fuzz_pipeline(const std::uint8_t*, std::size_t);
int fuzz_network(const std::uint8_t*, std::size_t);
int fuzz_machines(const std::uint8_t*, std::size_t);
int fuzz_workload(const std::uint8_t*, std::size_t);
int fuzz_hwloc(const std::uint8_t*, std::size_t);
int fuzz_host(const std::uint8_t*, std::size_t);
int fuzz_roce(const std::uint8_t*, std::size_t);
int fuzz_security(const std::uint8_t*, std::size_t);
}

namespace {

using Fuzzer = int (*)(const std::uint8_t*, std::size_t);

int replay(const std::filesystem::path& corpus, Fuzzer fuzzer) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::printf("%s\n", entry.path().c_str());
    std::fflush(stdout);
    fuzzer(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    ++inputs;
  }
  return inputs;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: replay_corpora FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  constexpr std::pair<const char*, Fuzzer> kFuzzers[] = {
      {"wire", fuzz_wire},         {"ring", fuzz_ring},       {"protocol", fuzz_protocol},
      {"rpc", fuzz_rpc},           {"config", fuzz_config},   {"plan", fuzz_plan},
      {"host", fuzz_host},         {"roce", fuzz_roce},       {"security", fuzz_security},
      {"pipeline", fuzz_pipeline}, {"network", fuzz_network}, {"machines", fuzz_machines},
      {"workload", fuzz_workload}, {"hwloc", fuzz_hwloc},
  };
  for (const auto& [name, fuzzer] : kFuzzers) {
    if (replay(folder / name, fuzzer) > 0) continue;
    std::fprintf(stderr, "%s has no inputs\n", (folder / name).c_str());
    return 1;
  }
  return 0;
}
