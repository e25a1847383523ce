#include "tests/support/tallyd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace tally::testing {

std::vector<std::string> Tallyd::command(const std::vector<std::string>& flags) const {
  std::vector<std::string> words{TALLYD, "--listen", address_, "--ready-fd", "1"};
  words.insert(words.end(), flags.begin(), flags.end());
  const auto has = [&](const char* flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  if (has("--listen-tcp") && !has("--secret-file")) words.push_back("--insecure");
  return words;
}

void Tallyd::launch(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment) {
  process_.reset();
  process_ = std::make_unique<Process>(command, environment);
}

void Tallyd::wait_until_ready() {
  if (process_->line(kEndMs) == "ready") return;
  process_->signal(SIGKILL);
  process_->wait();
  throw std::runtime_error("tallyd does not become ready: " + process_->output());
}

void Tallyd::start(const std::vector<std::string>& flags,
                   const std::vector<std::string>& environment) {
  launch(command(flags), environment);
  wait_until_ready();
}

void Tallyd::stop() {
  process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(), 0);
}

void Tallyd::kill() {
  process_->signal(SIGKILL);
  process_->wait();
}

}  // namespace tally::testing
