// TCP, which transport fabric runs over, and the node.
#include <fmt/format.h>

#include "control/cli/doctor/checks/checks.h"

namespace tally::control::doctor {
namespace {

// The bytes that a connection has in flight at 25 Gbit/s and 1 ms.
constexpr std::uint64_t kEnoughForTcp = 4 << 20;
// The default of Linux. A lower value was set by an administrator.
constexpr std::uint64_t kUsualMaximum = 212'992;

// The third number of tcp_rmem and tcp_wmem limits the buffers that the kernel sizes by itself.
Finding automatic(const Files& files, const std::string& name) {
  const auto text = files.read("/proc/sys/net/ipv4/" + name);
  const std::string what = "net.ipv4." + name;
  if (!text) return unknown(what, text.error());
  const auto numbers = words_of(*text);
  const auto largest = numbers.size() == 3
                           ? leading_number(numbers[2])
                           : Result<std::uint64_t>(Error{Status::kInternal, "not 3 numbers"});
  if (!largest) return unknown(what, largest.error());
  const std::string value = fmt::format("{} bytes at most", *largest);
  if (*largest >= kEnoughForTcp) return ok(what, value);
  return note(what, value + ": one connection may not fill a fast network",
              fmt::format("sysctl -w {}=\"{} {} {}\" (and a line in /etc/sysctl.d/ for good)", what,
                          numbers[0], numbers[1], 4 * kEnoughForTcp));
}

// Checks the limit of the buffers that a program requests itself.
Finding asked_for(const Files& files, const std::string& name) {
  const auto largest = files.number("/proc/sys/net/core/" + name);
  const std::string what = "net.core." + name;
  if (!largest) return unknown(what, largest.error());
  const std::string value = fmt::format("{} bytes", *largest);
  if (*largest >= kUsualMaximum) return ok(what, value);
  return note(what, value + ": less than Linux has by itself",
              fmt::format("sysctl -w {}={}", what, kEnoughForTcp));
}

}  // namespace

Findings check_tcp(const Machine& machine) {
  return {automatic(machine.files, "tcp_rmem"), automatic(machine.files, "tcp_wmem"),
          asked_for(machine.files, "rmem_max"), asked_for(machine.files, "wmem_max")};
}

Findings check_node(const Machine& machine) {
  const std::string what = "node at " + machine.address;
  const auto status = machine.system.node_status(machine.address, machine.timeout);
  if (!status && !machine.address_was_given) return {ok(what, "none answers; none is needed")};
  if (!status) {
    return {problem(what, status.error().message,
                    "start tallyd there, or correct --address (or $TALLY_ADDRESS)")};
  }
  if (!status->is_object() || !status->contains("version")) {
    return {problem(what, "what answers there is not a tallyd", "correct --address")};
  }
  const std::string version = status->value("version", "");
  const std::string value =
      fmt::format("answers: tallyd {}, {} shards, hugepages {}", version,
                  status->value("shards", 0), status->value("hugepages", nlohmann::json()).dump());
  if (version == TALLY_VERSION) return {ok(what, value)};
  return {warning(what, fmt::format("{}, and this is {}", value, TALLY_VERSION),
                  "install the same version on all machines")};
}

}  // namespace tally::control::doctor
