#include "control/cli/dump_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/cli/common/members.h"
#include "control/cli/common/standard_output.h"
#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"
#include "control/threads/parallel_for.h"

namespace tally::control {
namespace {

using nlohmann::json;
using rpc::RpcChannel;

constexpr std::size_t kMostThreads = 32;
constexpr Nanos kConnectTimeout = 3 * kSecond;

std::int64_t unix_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// A node's entry in the document, without its answers.
json entry_of(const std::string& name, const std::string& address) {
  return {{"name", name}, {"address", address}, {"error", ""}, {"jobs", json::array()}};
}

json entries_of(RpcChannel& node, Nanos timeout) {
  const std::string address = node.address();
  const auto members = ask_members(node, timeout);
  if (!members || members->empty()) return json::array({entry_of(address, address)});
  json entries = json::array();
  for (const json& member : *members) {
    const std::string tcp = text_at(member, "tcp");
    entries.push_back(
        entry_of(text_at(member, "name"), tcp.empty() ? text_at(member, "unix") : tcp));
  }
  return entries;
}

// Adds the reports of the node's jobs. A job that ends meanwhile is left out.
Outcome collect(json& entry, const std::string& job, Nanos timeout) {
  auto channel =
      RpcChannel::connect_as_user(text_at(entry, "address"), std::min(timeout, kConnectTimeout));
  if (!channel) return channel.error();
  const auto listed = channel->query("node.dump", json::object(), monotonic_now() + timeout);
  if (!listed) return listed.error();
  for (const json& one : list_at(*listed, "jobs")) {
    if (!job.empty() && text_at(one, "name") != job) continue;
    const json wanted = {{"job", text_at(one, "name")}, {"epoch", one.value("epoch", 0U)}};
    auto report = channel->query("node.dump", wanted, monotonic_now() + timeout);
    if (!report && report.status() == Status::kInvalidArgument) continue;
    if (!report) return report.error();
    (*report)["ended"] = one.value("ended", false);
    entry["jobs"].push_back(std::move(*report));
  }
  return Unit{};
}

// The same for threads, which must not throw: a node of another version may answer anything.
void collect_within(json& entry, const std::string& job, Nanos timeout) {
  try {
    const auto done = collect(entry, job, timeout);
    if (!done) entry["error"] = done.error().message;
  } catch (const std::exception& error) {
    entry["error"] = fmt::format("its answer is not understood: {}", error.what());
  }
}

std::string age_text(const json& stuck) {
  return format_value(number_at(stuck, "since_ms") / 1000, Format::kSeconds);
}

// The lines of one node.
std::string summary_of(const json& entry) {
  const std::string name = text_at(entry, "name");
  if (const std::string error = text_at(entry, "error"); !error.empty()) {
    return fmt::format("node {} does not answer: {}\n", name, error);
  }
  std::string text;
  for (const json& job : list_at(entry, "jobs")) {
    for (const json& stuck : list_at(job, "stuck")) {
      text += fmt::format("node {}, job {}, epoch {:.0f}{}: {}: {}, {}: {}\n", name,
                          text_at(job, "name"), number_at(job, "epoch"),
                          job.value("ended", false) ? ", ended" : "", text_at(stuck, "kind"),
                          text_at(stuck, "who"), age_text(stuck), text_at(stuck, "text"));
    }
  }
  return text;
}

}  // namespace

Result<std::string> run_dump(RpcChannel& node, const DumpArguments& arguments, Nanos timeout) {
  json document = {{"version", TALLY_VERSION},
                   {"unix_ms", unix_milliseconds()},
                   {"nodes", entries_of(node, timeout)}};
  json& entries = document["nodes"];
  parallel_for(entries.size(), kMostThreads,
               [&](std::size_t i) { collect_within(entries[i], arguments.job, timeout); });
  const std::string text = document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  std::string summary;
  std::size_t jobs = 0;
  for (const json& entry : entries) {
    summary += summary_of(entry);
    jobs += entry["jobs"].size();
  }
  if (arguments.out.empty()) {
    if (const auto written = write_stdout(text); !written) return written.error();
    return summary;
  }
  if (const auto written = write_out(arguments.out, text); !written) return written.error();
  return fmt::format("{}{}: {} nodes, {} reports of jobs\n", summary, arguments.out, entries.size(),
                     jobs);
}

}  // namespace tally::control
