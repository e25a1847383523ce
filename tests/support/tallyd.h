// A tallyd of a test, in a temporary folder of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/net/rpc_test_support.h"
#include "tests/support/process.h"

namespace tally::testing {

class Tallyd {
 public:
  // The command with which start() runs it.
  std::vector<std::string> command(const std::vector<std::string>& flags) const;
  // Runs a command that becomes tallyd, in place of the last one, and does not wait for it.
  void launch(const std::vector<std::string>& command,
              const std::vector<std::string>& environment = {});
  // Throws when it does not become ready.
  void wait_until_ready();
  void start(const std::vector<std::string>& flags = {},
             const std::vector<std::string>& environment = {});
  // Ends it with SIGTERM, which has to be exit status 0.
  void stop();
  void kill();

  const std::string& address() const { return address_; }
  std::string operator/(std::string_view file) const { return folder_ / file; }
  // The process of the last launch().
  Process& operator*() const { return *process_; }
  Process* operator->() const { return process_.get(); }

 private:
  rpc::TemporaryDirectory folder_;
  std::string address_ = "unix:" + (folder_ / "tallyd.sock");
  std::unique_ptr<Process> process_;
};

}  // namespace tally::testing
