// The attacks of a hostile rank on a node: a table by name. An attack takes one small step at a
// time; the test repeats it.
#pragma once

#include <span>
#include <string_view>

#include "tests/fault/raw_session.h"
#include "tests/support/transport/random.h"

namespace tally::testing {

struct Attack {
  std::string_view name;
  // Takes one step. The session may be over afterwards; the test then opens another one.
  void (*step)(RawSession& session, transport::Random& random, const RawOptions& options);
};

// attacks() returns all; each function below returns those on one interface.
std::span<const Attack> attacks();

std::span<const Attack> notice_attacks();
std::span<const Attack> request_attacks();
std::span<const Attack> memory_attacks();
std::span<const Attack> region_attacks();

}  // namespace tally::testing
