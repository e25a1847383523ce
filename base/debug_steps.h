// Where a test can kill or stop a process: the steps of an operation and of a session, by name.
// TALLY_DEBUG_STEP="node.placed:stop:3" stops the process (SIGSTOP) that reaches node.placed for
// the third time; ":kill" ends it (SIGKILL). tallyd honours the names of the node, libtally those
// of the client. Off, a step costs one predictable branch.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tally {

// In the order in which an operation passes them; `kDebugSteps` has the names.
enum class DebugStep : std::uint8_t {
  kNodeSessionOpened,
  kNodeAttached,
  kNodeRegionAdded,
  kNodeNoticeTaken,
  kNodeReady,
  kNodePulled,
  kNodeStoring,
  kNodeSummed,
  kNodePlaced,
  kNodeCompletionQueued,
  kNodeCompletionSent,
  kNodeRegionRemoved,
  kNodeSessionClosed,
  kClientConnected,
  kClientAttached,
  kClientRegionAdded,
  kClientBeforeNotice,
  kClientNoticeSent,
  kClientWoken,
  kClientCompletionTaken,
  kClientBeforeClose,
};

struct DebugStepInfo {
  DebugStep step;
  std::string_view name;
};

inline constexpr std::array kDebugSteps = {
    // Control: done at all shards, the answer not yet sent.
    DebugStepInfo{DebugStep::kNodeSessionOpened, "node.session-opened"},
    DebugStepInfo{DebugStep::kNodeAttached, "node.attached"},
    DebugStepInfo{DebugStep::kNodeRegionAdded, "node.region-added"},
    // A shard.
    DebugStepInfo{DebugStep::kNodeNoticeTaken, "node.notice-taken"},
    DebugStepInfo{DebugStep::kNodeReady, "node.ready"},      // a tile is chosen, not yet pulled
    DebugStepInfo{DebugStep::kNodePulled, "node.pulled"},    // its inputs are there
    DebugStepInfo{DebugStep::kNodeStoring, "node.storing"},  // opened, about to be summed
    DebugStepInfo{DebugStep::kNodeSummed, "node.summed"},    // stored, not yet closed
    DebugStepInfo{DebugStep::kNodePlaced, "node.placed"},    // closed, and placed everywhere
    DebugStepInfo{DebugStep::kNodeCompletionQueued, "node.completion-queued"},
    DebugStepInfo{DebugStep::kNodeCompletionSent, "node.completion-sent"},
    DebugStepInfo{DebugStep::kNodeRegionRemoved, "node.region-removed"},
    DebugStepInfo{DebugStep::kNodeSessionClosed, "node.session-closed"},
    // A rank.
    DebugStepInfo{DebugStep::kClientConnected, "client.connected"},
    DebugStepInfo{DebugStep::kClientAttached, "client.attached"},
    DebugStepInfo{DebugStep::kClientRegionAdded, "client.region-added"},
    DebugStepInfo{DebugStep::kClientBeforeNotice, "client.before-notice"},
    DebugStepInfo{DebugStep::kClientNoticeSent, "client.notice-sent"},
    DebugStepInfo{DebugStep::kClientWoken, "client.woken"},  // from a sleep
    DebugStepInfo{DebugStep::kClientCompletionTaken, "client.completion-taken"},
    DebugStepInfo{DebugStep::kClientBeforeClose, "client.before-close"},
};

// Reads $TALLY_DEBUG_STEP, once for the process; a bad value is refused with the list of names.
// Before the threads that pass steps are made, or at least where they see it done.
Outcome start_debug_steps();
Outcome parse_debug_step(std::string_view text);  // of start_debug_steps(), for its test

namespace debug_steps {
extern bool on;  // read-only after start_debug_steps()
void reach(DebugStep step);
}  // namespace debug_steps

inline void debug_step(DebugStep step) {
  if (debug_steps::on) [[unlikely]]
    debug_steps::reach(step);
}

}  // namespace tally
