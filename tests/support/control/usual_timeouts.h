// For tests: the time-outs of a coordinator whose configuration does not set them.
#pragma once

#include "base/timeouts/fault_timeouts.h"

namespace tally::control {

inline constexpr FaultTimeouts kUsual;
inline constexpr Nanos kRepairTimeout = kUsual.repair();
inline constexpr Nanos kChangeTimeout = kUsual.change();
inline constexpr Nanos kMostSilence = kUsual.node_silence();
inline constexpr Nanos kPlacingTimeout = kUsual.placing();
inline constexpr Nanos kReturn = kUsual.node_return();
inline constexpr Nanos kResume = kUsual.rank_resume();
inline constexpr Nanos kReconnect = kUsual.rank_reconnect();
inline constexpr Nanos kRejoin = kUsual.node_rejoin();
inline constexpr Nanos kHeartbeatTimeout = kUsual.heartbeat();
inline constexpr Nanos kSecondLook = kUsual.second_look();

}  // namespace tally::control
