// A tallyd process of the run, in a private directory. The destructor ends the process and removes
// the directory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/options/options.h"
#include "perf/run/process.h"

namespace tally::perf {

// Where the node listens for workers over TCP.
struct NodeListener {
  std::string tcp;     // empty: nowhere
  std::string secret;  // of the node; empty: it serves everybody
};

class Node {
 public:
  // Starts the program and waits until clients can connect. The error has the last output of the
  // program. It is kCancelled when `interrupt` became readable meanwhile.
  static Result<std::unique_ptr<Node>> start(const Options& options, const NodeListener& listener,
                                             int interrupt);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& address() const { return address_; }

  // Returns how the process ended, with its last output; nullopt while it runs.
  std::optional<std::string> ended();

 private:
  Node() = default;
  Result<std::string> write_secret(const std::string& secret) const;
  Outcome launch(const Options& options, const NodeListener& listener, int ready);
  Outcome await_ready(int ready, int interrupt);
  std::string log_tail() const;

  std::string directory_;
  std::string address_;
  ChildProcess process_;
};

// Returns the path of tallyd: the option `given`, beside this program, in the build tree, or the
// name for PATH.
std::string find_tallyd(const std::string& given);

}  // namespace tally::perf
