#include "control/cli/plan/plan_remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"
#include "control/cli/plan/plan_report.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/json/plan_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr int kRefused = 2;
constexpr std::size_t kJobRows = 20;  // of a table
// Bytes of a file in one request. JSON has at most twice as many bytes, and some around them.
constexpr std::size_t kPiece = 24 << 10;

PlanAnswer fail(int status, std::string_view message) {
  return {status, "", fmt::format("tallyctl: {}\n", message)};
}

PlanAnswer fail(const Error& error) {
  const bool silent = error.status == Status::kNodeLost || error.status == Status::kDeadline;
  return fail(silent ? kFailed : kRefused, error.message);
}

std::string for_whom(const std::string& job) {
  return job.empty() ? "for all jobs without a plan of their own" : fmt::format("for job {}", job);
}

// Bytes of the piece that begins at `begin`. The piece does not end inside a character of several
// bytes.
std::size_t piece_of(const std::string& text, std::size_t begin) {
  std::size_t end = std::min(begin + kPiece, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end - begin;
}

// Sends the text in pieces, each with `params`. Returns the answer to the last piece.
Result<json> upload(rpc::RpcChannel& channel, const std::string& text, const json& params,
                    Nanos timeout) {
  for (std::size_t sent = 0;;) {
    json piece = params;
    const std::size_t bytes = piece_of(text, sent);
    piece["text"] = text.substr(sent, bytes);
    sent += bytes;
    piece["more"] = sent < text.size();
    auto set = channel.call("plan.set", std::move(piece), {}, monotonic_now() + timeout);
    if (!set || sent == text.size()) return set;
  }
}

PlanAnswer set_closed_form(rpc::RpcChannel& channel, const PlanArguments& arguments,
                           Nanos timeout) {
  json params = {{"job", arguments.job}, {"closed_form", true}};
  // The previous version's coordinators do not know this key.
  if (arguments.now) params["now"] = true;
  if (arguments.machines.empty()) {
    const auto set = channel.call("plan.set", std::move(params), {}, monotonic_now() + timeout);
    if (!set) return fail(set.error());
    return {0, fmt::format("taken back: the plan {}\n", for_whom(arguments.job)), ""};
  }
  const auto text = read_file(arguments.machines, "the file that tallyctl probe --out wrote");
  if (!text) return fail(kRefused, text.error().message);
  auto file = plan::read_machines(*text);
  if (!file) {
    return fail(kRefused, fmt::format("{}: {}", arguments.machines, file.error().message));
  }
  file->pairs.clear();  // the coordinator does not use them
  const auto set = upload(channel, plan::write_machines(*file), params, timeout);
  if (!set) {
    return fail(
        Error{set.status(), fmt::format("{}: {}", arguments.machines, set.error().message)});
  }
  return {0,
          fmt::format("in force {}: the {} for {} machines' measured speeds{}\n",
                      for_whom(arguments.job),
                      file->racks.empty() ? "closed form" : "coordinator's own plan",
                      file->machines.size(), file->racks.empty() ? "" : " and racks"),
          ""};
}

PlanAnswer set(rpc::RpcChannel& channel, const PlanArguments& arguments, Nanos timeout) {
  if (arguments.closed_form) return set_closed_form(channel, arguments, timeout);
  if (arguments.file.empty()) return fail(kRefused, "plan set: give a FILE, or --closed-form");
  const auto file = read_file(arguments.file, "a plan file");
  if (!file) return fail(kRefused, file.error().message);
  const auto plan = plan::read_plan(*file);
  if (!plan) return fail(kRefused, fmt::format("{}: {}", arguments.file, plan.error().message));
  // Leaves out the fields that the coordinator does not read.
  const std::string text = plan::write_plan(*plan);
  json params = {{"job", arguments.job}, {"domain", arguments.domain}};
  if (arguments.now) params["now"] = true;
  const auto set = upload(channel, text, params, timeout);
  if (!set) {
    return fail(Error{set.status(), fmt::format("{}: {}", arguments.file, set.error().message)});
  }
  const bool by_name = set->value("domains", json::array()).size() > 1;
  return {0,
          fmt::format("in force for jobs that {}, {}: epoch {}\n",
                      arguments.now ? "run, and those that form" : "form from now on",
                      by_name ? "each domain for the job of its name" : for_whom(arguments.job),
                      plan->epoch),
          ""};
}

constexpr const char* kRackPlan = "trees that the coordinator has planned for racks";

// The plan by which the job runs, in words.
std::string source(const json& running) {
  const auto epoch = running.value("plan_epoch", std::uint64_t{0});
  // Coordinators of the previous version do not send it.
  const std::string source = running.value("source", epoch == 0 ? "closed form" : "file");
  if (source == "racks") return kRackPlan;
  return source == "file" ? fmt::format("a plan of epoch {}", epoch) : "the closed form";
}

// The coordinator's own plan, in words.
std::string own_plan(const json& shown) {
  return shown.value("source", "") == "racks" ? kRackPlan : "stars by the closed form";
}

// The source of the plan, and its relation to the job's plan, in one or more lines.
std::string title(const json& shown, const std::string& job) {
  const json running = shown.value("running", json::object());
  const bool is_running = running.value("shown", false);  // else the plan in force is shown
  const bool is_file = shown.value("source", "") == "file";
  std::string text = is_file ? fmt::format("set {}: domain {}\n", for_whom(shown.value("for", "")),
                                           shown.value("domain", ""))
                     : is_running ? own_plan(shown) + "\n"
                                  : own_plan(shown) + ": nobody has set a plan\n";
  if (running.empty()) return text;
  const auto epoch = running.value("epoch", std::uint64_t{0});
  if (is_running) {
    text += fmt::format("job {} runs by it, in epoch {}\n", job, epoch);
  } else {
    text += fmt::format("job {} runs in epoch {} by {}\n", job, epoch, source(running));
  }
  for (const json& one : list_at(running, "substitutes")) {
    text += fmt::format("{} stands in for {} there\n", text_at(one, "node"), names_at(one, "for"));
  }
  const auto newer = shown.find("newer");
  if (newer == shown.end()) return text;
  if (newer->value("source", "") == "file") {
    return text + fmt::format(
                      "a newer one is set {}: epoch {} (--in-force shows it; plan set --now "
                      "has the job go over to it)\n",
                      for_whom(newer->value("for", "")),
                      newer->value("plan_epoch", std::uint64_t{0}));
  }
  return text + fmt::format(
                    "in force is another: {}, for the nodes that there are now (--in-force shows "
                    "it)\n",
                    own_plan(*newer));
}

PlanAnswer show(rpc::RpcChannel& channel, const PlanArguments& arguments, bool as_json,
                Nanos timeout) {
  json params = {{"job", arguments.job}};
  // Coordinators of the previous version do not know this key.
  if (arguments.in_force) params["in_force"] = true;
  const auto shown = channel.call("plan.show", std::move(params), {}, monotonic_now() + timeout);
  if (!shown) return fail(shown.error());
  const auto plan = plan_shown(*shown);
  if (!plan) return fail(kFailed, plan.error().message);
  if (!arguments.out.empty()) {
    if (const auto written = write_out(arguments.out, text_at(*shown, "text")); !written) {
      return fail(kFailed, written.error().message);
    }
  }
  json report = plan_report(*plan, {});
  if (!as_json) return {0, title(*shown, arguments.job) + render_plan_report(report, kJobRows), ""};
  for (const char* key : {"source", "for", "domain", "running", "newer", "jobs_with_own"}) {
    if (shown->contains(key)) report[key] = shown->at(key);
  }
  return {0, report.dump(2, ' ', false, json::error_handler_t::replace) + "\n", ""};
}

}  // namespace

Result<plan::Plan> plan_shown(const json& answer) {
  const auto plan = plan::read_plan(text_at(answer, "text"));
  if (plan && plan::validate(*plan, {})) return plan;
  return Error{Status::kProtocol,
               fmt::format("the coordinator's plan cannot be read: {}; is it of another version?",
                           plan ? "it does not pass" : plan.error().message)};
}

PlanAnswer answer_remote_plan(rpc::RpcChannel& channel, const PlanArguments& arguments,
                              bool as_json, Nanos timeout) {
  return arguments.verb == PlanVerb::kSet ? set(channel, arguments, timeout)
                                          : show(channel, arguments, as_json, timeout);
}

}  // namespace tally::control
