// A hostile rank: attacks the node until its input ends, in session after session, then says
// "attacked STEPS SESSIONS" and what it was last refused.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "tests/fault/attacks.h"

namespace tally::testing {
namespace {

bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

void run(const Attack& attack, const RawOptions& options, std::uint64_t seed) {
  transport::Random random(seed);
  std::unique_ptr<RawSession> session;
  std::uint64_t steps = 0, sessions = 0;
  std::string refused = "nothing";
  while (!input_ended()) {
    try {
      if (session == nullptr || session->over()) {
        session.reset();
        session = std::make_unique<RawSession>(options);
        if (++sessions == 1) std::cout << "attacking" << std::endl;
      }
      attack.step(*session, random, options);
      ++steps;
    } catch (const std::exception& error) {
      refused = error.what();  // the old instance still winds down, or the node is gone
      session.reset();
      ::poll(nullptr, 0, 2);
    }
  }
  std::cout << "attacked " << steps << ' ' << sessions << " | " << refused << std::endl;
}

}  // namespace
}  // namespace tally::testing

int main(int argc, char** argv) {
  const auto table = tally::testing::attacks();
  if (argc == 2 && std::string(argv[1]) == "--list") {
    for (const auto& attack : table) std::cout << attack.name << '\n';
    return 0;
  }
  const auto found = argc == 7 ? std::find_if(table.begin(), table.end(),
                                              [&](const auto& a) { return a.name == argv[1]; })
                               : table.end();
  if (found == table.end()) {
    std::fprintf(stderr,
                 "usage: fault-hostile ATTACK ADDRESS JOB RANK RANKS SEED, or fault-hostile "
                 "--list\n");
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  tally::testing::run(*found,
                      {.address = argv[2],
                       .job = argv[3],
                       .rank = static_cast<std::uint32_t>(std::atoi(argv[4])),
                       .ranks = static_cast<std::uint32_t>(std::atoi(argv[5]))},
                      static_cast<std::uint64_t>(std::atoll(argv[6])));
  return 0;
}
