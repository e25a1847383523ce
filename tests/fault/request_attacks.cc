// Attacks by the control connection: requests that no client of ours makes.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "tests/fault/attacks.h"

namespace tally::testing {
namespace {

using nlohmann::json;
using transport::Random;

constexpr const char* kMethods[] = {
    "node.status",      "node.jobs",           "node.stats",      "node.metrics",
    "node.dump",        "node.trace",          "node.trace_take", "job.open",
    "job.next",         "job.report",          "job.leave",       "cluster.join",
    "cluster.next",     "cluster.report",      "cluster.drain",   "cluster.nodes",
    "cluster.jobs",     "cluster.coordinator", "plan.set",        "plan.show",
    "probe.machine",    "probe.serve",         "probe.run",       "session.open",
    "session.attach",   "session.close",       "session.empty",   "region.register",
    "region.deregister"};

void write(int socket, std::string_view text) {
  static_cast<void>(::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::string request(const char* method, const json& params, int id = 1) {
  return json{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}}.dump() + '\n';
}

void call(RawSession& session, const char* method, const json& params,
          std::span<const int> fds = {}) {
  static_cast<void>(session.channel.call(method, params, fds, monotonic_now() + kSecond));
}

// A connection that has opened nothing, kept for a while: it takes the place of an older one.
UniqueFd& stranger(Random& random, const RawOptions& options) {
  static std::array<UniqueFd, 32> strangers;
  UniqueFd& socket = random.pick(strangers);
  socket = connect_raw(options.address);
  return socket;
}

json any_value(Random& random) {
  switch (random.below(7)) {
    case 0:
      return nullptr;
    case 1:
      return static_cast<std::int64_t>(random.next());
    case 2:
      return -1e308;
    case 3:
      return std::string(random.below(2000), 'x');
    case 4:
      return json::array({1, "two", json::object()});
    case 5:
      return json{{"trees", 1 << 30}};
    default:
      return true;
  }
}

// Every method with parameters of every type under the names that the node knows.
void parameters(RawSession& session, Random& random, const RawOptions&) {
  constexpr const char* kNames[] = {"version", "job",   "token", "rank",  "ranks", "epoch", "name",
                                    "host",    "shard", "on",    "trees", "text",  "done",  "more",
                                    "bytes",   "base",  "key",   "keys",  "names", "secret"};
  json params = json::object();
  for (std::uint64_t i = random.below(6); i > 0; --i)
    params[random.pick(kNames)] = any_value(random);
  static_cast<void>(session.channel.ask(random.pick(kMethods), params, monotonic_now() + kSecond));
  if (random.below(20) == 0) session.channel = must_connect(session.channel.address());
}

void deep_json(RawSession&, Random& random, const RawOptions& options) {
  const std::size_t depth = 1 + random.below(30'000);
  const std::string_view pair = random.below(2) == 0 ? "[]" : "{}";
  std::string text = R"({"jsonrpc":"2.0","id":1,"method":"node.status","params":)";
  for (std::size_t i = 0; i < depth; ++i) text += pair[0] == '[' ? "[" : "{\"a\":";
  write(stranger(random, options).get(), text + '\n');
}

void bad_text(RawSession&, Random& random, const RawOptions& options) {
  constexpr std::string_view kTexts[] = {
      "\xff\xfe\xfd\n",
      "{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\x28\",\"method\":\"node.status\"}\n",
      "[1,2,3]\n",
      "{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"node.status\"}\n",
      "{\"id\":1,\"id\":2,\"method\":\"node.status\",\"method\":3}\n",
      "\0\0\0\n",
      "null\n",
      "GET / HTTP/1.1\r\nHost: node\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n"};
  write(stranger(random, options).get(), random.pick(kTexts));
}

// A request without an end; below, a request that arrives byte by byte.
void endless_line(RawSession&, Random& random, const RawOptions& options) {
  const std::string text(80 << 10, 'x');
  write(stranger(random, options).get(), text);
}

void byte_by_byte(RawSession&, Random& random, const RawOptions& options) {
  static UniqueFd slow;
  if (!slow || random.below(500) == 0) slow = connect_raw(options.address);
  write(slow.get(), "{");
}

// Sends requests and reads no reply.
void unread_replies(RawSession&, Random& random, const RawOptions& options) {
  const int socket = stranger(random, options).get();
  for (int i = 0; i < 60; ++i) write(socket, request("node.stats", json::object(), i));
}

void without_id(RawSession& session, Random& random, const RawOptions&) {
  for (int i = 0; i < 20; ++i) {
    write(session.channel.fd(),
          json{{"jsonrpc", "2.0"}, {"method", random.pick(kMethods)}, {"params", json::object()}}
                  .dump() +
              '\n');
  }
}

// Descriptors with a request that takes none, as many as a message carries.
void descriptors(RawSession& session, Random& random, const RawOptions& options) {
  std::array<int, 250> fds;
  fds.fill(session.doorbells[0].get());
  const auto count = 1 + random.below(fds.size());
  const int socket = random.below(2) == 0 ? session.channel.fd() : stranger(random, options).get();
  std::array<std::byte, CMSG_SPACE(sizeof fds)> control{};
  char text[] = "{\"half\":";
  iovec part{text, sizeof text - 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
  static_cast<void>(::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Further requests behind session.close, in the same write.
void after_the_end(RawSession& session, Random& random, const RawOptions&) {
  std::string text = request("session.close", json::object());
  for (int i = 2; i < 10; ++i) text += request(random.pick(kMethods), json{{"region", 1}}, i);
  write(session.channel.fd(), text);
  ::poll(nullptr, 0, 1);
  ::shutdown(session.channel.fd(), random.below(2) == 0 ? SHUT_RDWR : SHUT_WR);
}

// More of them than may be unanswered.
void pipelined(RawSession& session, Random& random, const RawOptions&) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += request(random.pick(kMethods), json{{"region", random.below(3)}, {"job", "doomed"}}, i);
  }
  write(session.channel.fd(), text);
  if (random.below(4) == 0) ::shutdown(session.channel.fd(), SHUT_RDWR);
}

// Ranks of another job that are there already, or are not.
void foreign_ranks(RawSession& session, Random& random, const RawOptions&) {
  call(
      session, "session.open",
      {{"version", 1}, {"job", "healthy"}, {"token", ""}, {"rank", random.below(3)}, {"ranks", 2}});
  const json params = {{"job", "healthy"}, {"on", random.below(2) == 0}, {"shard", 0}};
  call(session, random.below(2) == 0 ? "node.trace" : "node.trace_take", params);
}

void job_names(RawSession&, Random& random, const RawOptions& options) {
  constexpr std::string_view kNames[] = {"",     "a\nb",   "\"quoted\"", "../../etc/passwd",
                                         "%s%n", "\u202e", "doomed "};
  std::string name(random.pick(kNames));
  if (random.below(4) == 0) name = std::string(1 + random.below(60'000), 'j');
  write(stranger(random, options).get(),
        request("session.open", {{"version", 1},
                                 {"job", name},
                                 {"token", ""},
                                 {"rank", 0},
                                 {"ranks", 1 + random.below(2000)}}));
}

// Long texts in pieces that never end.
void plans(RawSession&, Random& random, const RawOptions& options) {
  const int socket = stranger(random, options).get();
  const std::string piece(50'000, '{');
  for (int i = 0; i < 50; ++i) {
    write(socket, request("plan.set", {{"text", piece}, {"token", ""}, {"more", true}}, i));
  }
}

void reports(RawSession&, Random& random, const RawOptions& options) {
  const int socket = stranger(random, options).get();
  json rounds = json::array();
  for (int i = 0; i < 3000; ++i) rounds.push_back({random.below(1 << 30), 1});
  write(socket, request("job.report",
                        {{"epoch", 1}, {"said", "ready"}, {"rounds", rounds}, {"more", true}}));
  write(socket, request("job.next", json::object(), 2));
}

// Nodes that do not exist, and shards that they do not have.
void members(RawSession&, Random& random, const RawOptions& options) {
  const json params = {{"version", 1},
                       {"name", std::string(1 + random.below(300), 'n')},
                       {"host", "nowhere"},
                       {"role", "node"},
                       {"tcp", "tcp:127.0.0.1:1"},
                       {"unix", "unix:/nowhere"},
                       {"shards", random.next()},
                       {"speed", random.next()},
                       {"epoch", UINT64_MAX},
                       {"token", ""}};
  const int socket = stranger(random, options).get();
  write(socket, request("cluster.join", params));
  write(socket, request("cluster.next", {{"done", any_value(random)}, {"wait_ms", 10'000}}, 2));
}

// Measurements that nobody comes to.
void probes(RawSession&, Random& random, const RawOptions& options) {
  write(stranger(random, options).get(), request("probe.serve", {{"streams", 256},
                                                                 {"measure_ms", 10'000},
                                                                 {"warm_up_ms", 2000},
                                                                 {"max_bytes", UINT64_MAX},
                                                                 {"token", ""}}));
}

void requests(RawSession& session, Random& random, const RawOptions&) {
  const char* methods[] = {"session.open",      "session.attach", "region.register",
                           "region.deregister", "node.status",    "session.flee"};
  const json values[] = {json(nullptr), json(-1),         json(1e300),
                         json("x"),     json::array({1}), json(UINT64_MAX)};
  const char* names[] = {"bytes", "region", "rank", "ranks", "version"};
  json params = json::object();
  for (std::uint64_t i = random.below(4); i > 0; --i)
    params[random.pick(names)] = random.pick(values);
  std::vector<int> fds;
  for (std::uint64_t i = random.below(6); i > 0; --i) fds.push_back(session.doorbells[0].get());
  static_cast<void>(
      session.channel.call(random.pick(methods), params, fds, monotonic_now() + kSecond));
  if (random.below(4) == 0) {
    std::string bytes(64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    write(session.channel.fd(), bytes);
  }
}

// Connections that say nothing, half a request, or hang up; some 500 in a second.
void storm(RawSession&, Random& random, const RawOptions& options) {
  static std::array<UniqueFd, 64> half_open;
  UniqueFd socket = connect_raw(options.address);
  static constexpr std::string_view kHalf = R"({"jsonrpc":"2.0","id":1,"method":"node.st)";
  if (random.below(2) == 0) {
    static_cast<void>(::send(socket.get(), kHalf.data(), kHalf.size(), MSG_NOSIGNAL));
  }
  if (random.below(2) == 0) random.pick(half_open) = std::move(socket);
  ::poll(nullptr, 0, 2);
}

// Sessions that come and go at once, in good order and not.
void sessions(RawSession& session, Random& random, const RawOptions&) {
  session.send(session.notice(static_cast<std::uint32_t>(random.below(8)), 0));
  if (random.below(2) == 0) {
    static_cast<void>(
        session.channel.call("session.close", json::object(), {}, monotonic_now() + kSecond));
  }
  ::shutdown(session.channel.fd(), SHUT_RDWR);
}

constexpr Attack kRequestAttacks[] = {
    {"requests", requests},
    {"storm", storm},
    {"sessions", sessions},
    {"parameters", parameters},
    {"deep-json", deep_json},
    {"bad-text", bad_text},
    {"endless-line", endless_line},
    {"byte-by-byte", byte_by_byte},
    {"unread-replies", unread_replies},
    {"without-id", without_id},
    {"descriptors", descriptors},
    {"after-the-end", after_the_end},
    {"pipelined", pipelined},
    {"foreign-ranks", foreign_ranks},
    {"job-names", job_names},
    {"plans", plans},
    {"reports", reports},
    {"members", members},
    {"probes", probes},
};

}  // namespace

std::span<const Attack> request_attacks() {
  return kRequestAttacks;
}

}  // namespace tally::testing
