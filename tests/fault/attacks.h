// What a hostile rank does to a node: a table, by name. An attack takes one small step at a time
// and goes on until the test has seen enough.
#pragma once

#include <span>
#include <string_view>

#include "dataplane/transport/faulty/random.h"
#include "tests/fault/raw_session.h"

namespace tally::testing {

struct Attack {
  std::string_view name;
  // One step. The session may be over afterwards; another one follows.
  void (*step)(RawSession& session, transport::Random& random, const RawOptions& options);
};

std::span<const Attack> attacks();

}  // namespace tally::testing
