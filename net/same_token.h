// Compares secrets.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace tally::net {

// Takes the same time for every wrong token of the right length.
inline bool same_token(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// The error for a request that needs the cluster's token and has a wrong one.
inline Error wrong_cluster_token() {
  return {Status::kRefused,
          "wrong cluster.token: give that of the node's configuration by --token, or set "
          "$TALLY_CLUSTER_TOKEN"};
}

}  // namespace tally::net
