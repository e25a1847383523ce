// The value of cluster.store: "etcd:https://10.0.0.1:2379,https://10.0.0.2:2379". Plain http:// is
// for addresses of this host alone, because passwords and keys of jobs travel there. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control {

// The endpoints, without a slash at their end. An error says what is wrong with which address, and
// shows nothing of the value, which may have a password.
Result<std::vector<std::string>> parse_store(std::string_view store);

}  // namespace tally::control
