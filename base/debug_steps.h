// Named steps of an operation and of a session, at which a test can kill or stop a process.
// TALLY_DEBUG_STEP="node.placed:stop:3" stops the process (SIGSTOP) that reaches node.placed for
// the third time. With ":kill" instead of ":stop" the process ends (SIGKILL). tallyd honours the
// names of the node, and libtally honours the names of the client. Only a build with
// -Dfault_points=true has the steps, because a variable that can kill the process of libtally's
// user has no place in a package. Without the option a step costs nothing; with it and without the
// variable, one predictable branch.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/build_options.h"
#include "base/result.h"

namespace tally {

// The steps are in the order in which an operation passes them. `kDebugSteps` has the names.
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
    // The control thread: all shards have done it, and the answer is not sent yet.
    DebugStepInfo{DebugStep::kNodeSessionOpened, "node.session-opened"},
    DebugStepInfo{DebugStep::kNodeAttached, "node.attached"},
    DebugStepInfo{DebugStep::kNodeRegionAdded, "node.region-added"},
    // A shard:
    DebugStepInfo{DebugStep::kNodeNoticeTaken, "node.notice-taken"},
    DebugStepInfo{DebugStep::kNodeReady, "node.ready"},      // a tile is chosen and not pulled yet
    DebugStepInfo{DebugStep::kNodePulled, "node.pulled"},    // the tile's inputs have arrived
    DebugStepInfo{DebugStep::kNodeStoring, "node.storing"},  // access begun, not summed yet
    DebugStepInfo{DebugStep::kNodeSummed, "node.summed"},    // stored; access not ended yet
    DebugStepInfo{DebugStep::kNodePlaced, "node.placed"},    // the tile has ended, placed or failed
    DebugStepInfo{DebugStep::kNodeCompletionQueued, "node.completion-queued"},
    DebugStepInfo{DebugStep::kNodeCompletionSent, "node.completion-sent"},
    DebugStepInfo{DebugStep::kNodeRegionRemoved, "node.region-removed"},
    DebugStepInfo{DebugStep::kNodeSessionClosed, "node.session-closed"},
    // A rank:
    DebugStepInfo{DebugStep::kClientConnected, "client.connected"},
    DebugStepInfo{DebugStep::kClientAttached, "client.attached"},
    DebugStepInfo{DebugStep::kClientRegionAdded, "client.region-added"},
    DebugStepInfo{DebugStep::kClientBeforeNotice, "client.before-notice"},
    DebugStepInfo{DebugStep::kClientNoticeSent, "client.notice-sent"},
    DebugStepInfo{DebugStep::kClientWoken, "client.woken"},  // after a sleep
    DebugStepInfo{DebugStep::kClientCompletionTaken, "client.completion-taken"},
    DebugStepInfo{DebugStep::kClientBeforeClose, "client.before-close"},
};

// Reads $TALLY_DEBUG_STEP once per process. Returns an error that lists the steps when the value is
// not valid, and in a build without the steps an error when the variable is set. Must happen before
// the threads that pass steps start, or must otherwise be visible to them.
Outcome start_debug_steps();
#ifdef TALLY_FAULT_POINTS
Outcome parse_debug_step(std::string_view text);  // start_debug_steps() and its test call this

namespace debug_steps {
extern bool on;  // read-only after start_debug_steps()
void reach(DebugStep step);
}  // namespace debug_steps

inline void debug_step(DebugStep step) {
  if (debug_steps::on) [[unlikely]]
    debug_steps::reach(step);
}
#else
inline void debug_step(DebugStep) {}
#endif

}  // namespace tally
