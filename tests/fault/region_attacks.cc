// Attacks by many requests for one region at a time, none of which waits for the answer to another.
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "tests/fault/attacks.h"

namespace tally::testing {
namespace {

using nlohmann::json;
using transport::Random;

// Without an id: there is no answer to be read. `fd`: goes along; -1: none.
void notify(const RawSession& session, const char* method, const json& params, int fd = -1) {
  std::string line = json{{"jsonrpc", "2.0"}, {"method", method}, {"params", params}}.dump() + '\n';
  iovec part{line.data(), line.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  static_cast<void>(::sendmsg(session.channel.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

void add(const RawSession& session) {
  notify(session, "region.register",
         {{"bytes", RawSession::kRegionBytes}, {"region", session.region}}, session.data.fd.get());
}

void remove(const RawSession& session) {
  notify(session, "region.deregister", {{"region", session.region}});
}

// The number is removed twice and given anew while operations read and write under it.
void twice_removed(RawSession& session, Random& random, const RawOptions&) {
  for (std::uint64_t i = 1 + random.below(4); i > 0; --i) {
    session.send(session.notice(static_cast<std::uint32_t>(random.below(64)),
                                static_cast<std::uint32_t>(random.below(3)), 200'000));
    remove(session);
    if (random.below(2) == 0) remove(session);
    add(session);
  }
  session.drain();
}

// In any order, and now and then with the end of the session behind it.
void in_one_go(RawSession& session, Random& random, const RawOptions&) {
  for (std::uint64_t i = 2 + random.below(12); i > 0; --i) {
    random.below(2) == 0 ? add(session) : remove(session);
    if (random.below(3) == 0)
      session.send(session.notice(random.below(2) == 0 ? 1 : 2, 0, 100'000));
  }
  if (random.below(8) == 0) notify(session, "session.close", json::object());
  session.drain();
}

constexpr Attack kRegionAttacks[] = {
    {"twice-removed", twice_removed},
    {"regions-in-one-go", in_one_go},
};

}  // namespace

std::span<const Attack> region_attacks() {
  return kRegionAttacks;
}

}  // namespace tally::testing
