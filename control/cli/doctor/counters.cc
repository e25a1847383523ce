// What RDMA ports have counted since their driver was loaded.
#include "control/cli/doctor/counters.h"

#include <fmt/format.h>

#include <array>

#include "control/cli/doctor/checks/checks.h"
#include "control/cli/doctor/rdma.h"

namespace tally::control::doctor {
namespace {

// Meanings that several counters share.
constexpr std::string_view kOutOfOrder = "packets arrived out of order: some before were lost";
constexpr std::string_view kMissed = "the other side missed packets and asked for them again";
constexpr std::string_view kNoAnswer =
    "no acknowledgement came in time: packets or the other side were lost";
constexpr std::string_view kGivenUp = "given up after the last retry: the connection broke";
constexpr std::string_view kNotReady = "the other side was not ready to receive";

// Remedies; "{}" stands for the interface.
constexpr std::string_view kLossy =
    "packets get lost or damaged: tallyctl doctor --check pfc; make the class of RoCE lossless or "
    "mark with ECN, at the switches too; ethtool -S {} shows discards";
constexpr std::string_view kCongested =
    "senders are being slowed down, as they should be: watch whether it grows while throughput is "
    "low";
constexpr std::string_view kCable = "clean or replace cable and transceiver; ethtool -m {}";
constexpr std::string_view kReceiver =
    "the program posts receives too slowly: give it CPUs of its own, or more credit";
constexpr std::string_view kProgram =
    "a program has named memory that was not registered or is not so any more: look at its log";

// Counter names of mlx5, mlx4, bnxt_re, irdma and rxe, where they differ.
constexpr std::array<CounterMeaning, 35> kMeanings = {{
    {"out_of_sequence", Level::kWarning, kOutOfOrder, kLossy},
    {"out_of_seq_request", Level::kWarning, kOutOfOrder, kLossy},
    {"packet_seq_err", Level::kWarning, kMissed, kLossy},
    {"rcvd_seq_err", Level::kWarning, kMissed, kLossy},
    {"seq_err_naks_rcvd", Level::kWarning, kMissed, kLossy},
    {"implied_nak_seq_err", Level::kWarning, "answers to reads were lost", kLossy},
    {"local_ack_timeout_err", Level::kWarning, kNoAnswer, kLossy},
    {"to_retransmits", Level::kWarning, kNoAnswer, kLossy},
    {"retry_exceeded_err", Level::kWarning, kGivenUp, kLossy},
    {"max_retry_exceeded", Level::kWarning, kGivenUp, kLossy},
    {"completer_retry_err", Level::kWarning, "requests were sent again", kLossy},
    {"duplicate_request", Level::kNote, "the other side sent requests again", kLossy},
    {"rx_icrc_encapsulated", Level::kWarning, "RoCE packets with a wrong checksum (ICRC)", kCable},
    {"rx_roce_discards", Level::kWarning, "RoCE packets were thrown away", kLossy},
    {"roce_slow_restart", Level::kNote, "senders began anew, slowly, after silence", kCongested},
    {"rnr_nak_retry_err", Level::kWarning, kNotReady, kReceiver},
    {"rcvd_rnr_err", Level::kWarning, kNotReady, kReceiver},
    {"retry_rnr_exceeded_err", Level::kWarning,
     "given up: the other side was never ready to receive", kReceiver},
    {"send_rnr_err", Level::kWarning, "this machine was not ready to receive", kReceiver},
    {"rnr_naks_rcvd", Level::kWarning, kNotReady, kReceiver},
    {"out_of_buffer", Level::kWarning, "packets came for which no receive was posted", kReceiver},
    {"req_remote_access_errors", Level::kNote, "the other side refused access to its memory",
     kProgram},
    {"resp_remote_access_errors", Level::kNote,
     "the other side asked for memory that it may not use", kProgram},
    {"np_ecn_marked_roce_packets", Level::kNote,
     "packets came that a switch had marked: congestion on the way here", kCongested},
    {"np_cnp_sent", Level::kNote, "this machine told senders to slow down", kCongested},
    {"rp_cnp_handled", Level::kNote, "this machine was told to slow down, and did", kCongested},
    {"rp_cnp_ignored", Level::kWarning, "this machine was told to slow down, and did not",
     "switch congestion control on (mlx5): for p in /sys/class/net/{}/ecn/roce_rp/enable/*; do "
     "echo 1 >$p; done"},
    {"port_xmit_wait", Level::kNote, "ticks in which there was something to send and no leave to",
     kCongested},
    {"port_xmit_discards", Level::kWarning, "packets could not be sent and were thrown away",
     kLossy},
    {"port_rcv_errors", Level::kWarning, "damaged packets came", kCable},
    {"symbol_error", Level::kWarning, "the link misread symbols", kCable},
    {"link_error_recovery", Level::kWarning, "the link had to be trained anew", kCable},
    {"link_downed", Level::kNote, "the link went down (also when the other side restarts)", kCable},
    {"local_link_integrity_errors", Level::kWarning, "too many errors on the link", kCable},
    {"excessive_buffer_overrun_errors", Level::kWarning, "the port's buffers ran over", kLossy},
}};

// Adds a finding for each known counter that is not zero or cannot be read. Returns the number of
// files.
std::size_t look_at(const Files& files, const RdmaPort& port, std::string_view folder,
                    Findings& findings) {
  const std::string path = fmt::format("{}/{}", port.folder(), folder);
  const auto interfaces = interfaces_of(files, port);
  const std::string interface = interfaces.empty() ? "INTERFACE" : interfaces.front();
  const auto names = files.list(path);
  for (const std::string& name : names) {
    const CounterMeaning* meaning = find_counter(name);
    if (meaning == nullptr) continue;
    const std::string what = fmt::format("{} {}", port.name(), name);
    const auto value = files.number(path + "/" + name);
    if (!value) findings.push_back(unknown(what, value.error()));
    if (!value || *value == 0) continue;
    findings.push_back({meaning->level, what, fmt::format("{}: {}", *value, meaning->meaning),
                        filled_in(meaning->remedy, interface)});
  }
  return names.size();
}

}  // namespace

const CounterMeaning* find_counter(std::string_view name) {
  for (const CounterMeaning& meaning : kMeanings) {
    if (meaning.name == name) return &meaning;
  }
  return nullptr;
}

Findings check_counters(const Machine& machine) {
  const auto ports = rdma_ports(machine.files);
  if (ports.empty()) return {ok("counters", "no RDMA port")};
  Findings findings;
  for (const RdmaPort& port : ports) {
    const std::size_t before = findings.size();
    const std::size_t files = look_at(machine.files, port, "hw_counters", findings) +
                              look_at(machine.files, port, "counters", findings);
    if (findings.size() > before) continue;
    findings.push_back(
        ok(port.name(), files == 0 ? "its driver shows no counters"
                                   : fmt::format("{} counters, and none tells of trouble", files)));
  }
  return findings;
}

}  // namespace tally::control::doctor
