#include "perf/run/node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/system/fd.h"

namespace tally::perf {
namespace {

constexpr Nanos kStartTimeout = 20 * kSecond;
constexpr Nanos kEndTimeout = 5 * kSecond;
constexpr int kReadyFd = 3;             // the node's descriptor of the pipe for "ready"
constexpr std::size_t kLogTail = 2000;  // bytes of the node's log in an error

// A socket's path must fit into sockaddr_un, so a long TMPDIR cannot be used.
std::string make_directory() {
  const char* base = std::getenv("TMPDIR");
  for (const std::string parent : {base != nullptr ? base : "/tmp", "/tmp"}) {
    std::string path = parent + "/tally-perf-XXXXXX";
    if (path.size() + sizeof "/node.sock" > sizeof(sockaddr_un{}.sun_path)) continue;
    if (mkdtemp(path.data()) != nullptr) return path;
  }
  return {};
}

std::vector<std::string> node_command(const Options& options, const std::string& address,
                                      const std::string& listen_tcp,
                                      const std::string& secret_file) {
  std::vector<std::string> command = {find_tallyd(options.tallyd), "--listen", address,
                                      "--ready-fd", std::to_string(kReadyFd)};
  const auto pass = [&](const char* flag, const std::string& value) {
    if (value.empty()) return;
    command.push_back(flag);
    command.push_back(value);
  };
  pass("--shards", options.shards != 0 ? std::to_string(options.shards) : std::string());
  pass("--listen-tcp", listen_tcp);
  if (!listen_tcp.empty()) pass("--secret-file", secret_file);
  if (!listen_tcp.empty() && secret_file.empty()) command.emplace_back("--insecure");
  pass("--tile-bytes", options.tile_bytes);
  pass("--isa", options.isa);
  pass("--poll", options.poll);
  command.insert(command.end(), options.node_arguments.begin(), options.node_arguments.end());
  return command;
}

}  // namespace

std::string find_tallyd(const std::string& given) {
  if (!given.empty()) return given;
  const std::string here = own_directory();
  for (const std::string& path : {here + "/tallyd", here + "/../control/tallyd"}) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "tallyd";
}

Result<std::unique_ptr<Node>> Node::start(const Options& options, const NodeListener& listener,
                                          int interrupt) {
  std::unique_ptr<Node> node(new Node);
  node->directory_ = make_directory();
  if (node->directory_.empty()) {
    return Error{Status::kUnavailable,
                 fmt::format("no temporary directory: {}", std::strerror(errno))};
  }
  node->address_ = "unix:" + node->directory_ + "/node.sock";
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return Error{Status::kUnavailable, std::strerror(errno)};
  const UniqueFd reading(ready[0]);
  UniqueFd writing(ready[1]);
  if (auto outcome = node->launch(options, listener, writing.get()); !outcome.ok())
    return outcome.error();
  writing.reset();
  if (auto outcome = node->await_ready(reading.get(), interrupt); !outcome.ok())
    return outcome.error();
  return node;
}

Node::~Node() {
  process_.stop(kEndTimeout);
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

// Returns the file; empty: there is no secret.
Result<std::string> Node::write_secret(const std::string& secret) const {
  if (secret.empty()) return std::string();
  const std::string path = directory_ + "/secret";
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string text = secret + "\n";
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error{Status::kUnavailable,
                 fmt::format("cannot write {}: {}", path, std::strerror(errno))};
  }
  return path;
}

Outcome Node::launch(const Options& options, const NodeListener& listener, int ready) {
  const std::string path = directory_ + "/node.log";
  const UniqueFd log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto secret = write_secret(listener.secret);
  if (!secret) return secret.error();
  if (!log || !nothing) return Error{Status::kUnavailable, "cannot write " + path};
  auto process = ChildProcess::start({
      .command = node_command(options, address_, listener.tcp, *secret),
      .descriptors = {{nothing.get(), 0}, {log.get(), 1}, {log.get(), 2}, {ready, kReadyFd}},
      // On SIGTERM the node removes its socket and its shared memory.
      .signal_when_orphaned = SIGTERM,
  });
  if (!process.ok()) {
    return Error{
        process.status(),
        process.error().message +
            " (looked beside tally-perf, in the build tree and on PATH; --tallyd names it)"};
  }
  process_ = std::move(process).value();
  return Unit{};
}

Outcome Node::await_ready(int ready, int interrupt) {
  pollfd sources[] = {{ready, POLLIN, 0}, {interrupt, POLLIN, 0}};
  const int count = poll(sources, 2, static_cast<int>(kStartTimeout / kMillisecond));
  char byte = 0;
  if (sources[0].revents != 0 && ::read(ready, &byte, 1) == 1) return Unit{};
  if (count == 0) {
    return Error{Status::kUnavailable, "the node does not get ready" + log_tail()};
  }
  if (sources[0].revents == 0) return Error{Status::kCancelled, "interrupted"};
  // The node closed the pipe, so it is ending.
  const Nanos until = monotonic_now() + kEndTimeout;
  while (monotonic_now() < until) {
    if (auto how = ended()) return Error{Status::kUnavailable, "the node did not start: " + *how};
    usleep(2000);
  }
  return Error{Status::kUnavailable, "the node did not get ready" + log_tail()};
}

std::optional<std::string> Node::ended() {
  const auto how = process_.ended();
  if (!how) return std::nullopt;
  return *how + log_tail();
}

std::string Node::log_tail() const {
  std::ifstream log(directory_ + "/node.log");
  std::string text{std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()};
  if (text.size() > kLogTail) text.erase(0, text.size() - kLogTail);
  return text.empty() ? "; it printed nothing" : "; it printed:\n" + text;
}

}  // namespace tally::perf
