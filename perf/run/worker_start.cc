#include <signal.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "net/line_channel.h"
#include "perf/run/worker.h"

namespace tally::perf {
namespace {

// The descriptors of a worker's two sockets: the channel to the conductor, and the run's options.
constexpr int kChannelFd = 3;
constexpr int kOptionsFd = 4;

}  // namespace

Result<ChildProcess> start_worker(const Options& options, int channel) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return Error{Status::kInternal, "cannot make a socket pair"};
  }
  net::Channel ours{UniqueFd(pair[0])};
  const UniqueFd theirs(pair[1]);
  auto process = ChildProcess::start({
      .command = {own_path(), "worker", std::to_string(kChannelFd), std::to_string(kOptionsFd)},
      .descriptors = {{0, 0}, {1, 1}, {2, 2}, {channel, kChannelFd}, {theirs.get(), kOptionsFd}},
      .signal_when_orphaned = SIGKILL,
  });
  if (process.ok()) ours.send(to_json(options));
  return process;
}

}  // namespace tally::perf
