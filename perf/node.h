// A tallyd of our own, in a private directory; both are gone when the Node is.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/options.h"
#include "perf/process.h"

namespace tally::perf {

class Node {
 public:
  // Starts the program and waits until clients can connect; where workers on TCP can, if not "",
  // is `listen_tcp`. The error has the program's last words;
  // it is kCancelled when `interrupt` became readable meanwhile.
  static Result<std::unique_ptr<Node>> start(const Options& options, const std::string& listen_tcp,
                                             int interrupt);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& address() const { return address_; }

  // How it ended, with its last words; nullopt while it runs.
  std::optional<std::string> ended();

 private:
  Node() = default;
  Outcome launch(const Options& options, const std::string& listen_tcp, int ready);
  Outcome await_ready(int ready, int interrupt);
  std::string last_words() const;

  std::string directory_;
  std::string address_;
  ChildProcess process_;
};

// Where tallyd is: the option, beside this program, in the build tree, or by name on PATH.
std::string find_tallyd(const std::string& given);

}  // namespace tally::perf
