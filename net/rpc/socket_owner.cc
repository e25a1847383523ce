#include "net/rpc/socket_owner.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>

namespace tally::rpc {
namespace {

constexpr const char* kDefaultUser = "tally";

std::optional<uid_t> uid_of(const char* name) {
  std::array<char, 4096> room;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(name, &entry, room.data(), room.size(), &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  return entry.pw_uid;
}

}  // namespace

Outcome check_socket_owner(int socket, std::string_view address) {
  ucred owner{};
  socklen_t bytes = sizeof owner;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &owner, &bytes) != 0) {
    return refused(fmt::format("nobody knows who serves {}", address));
  }
  if (owner.uid == 0 || owner.uid == ::geteuid()) return Unit{};
  const char* given = std::getenv("TALLY_NODE_USER");
  const char* user = given != nullptr && *given != '\0' ? given : kDefaultUser;
  const auto uid = uid_of(user);
  if (!uid && given != nullptr) {
    return invalid(fmt::format("$TALLY_NODE_USER is \"{}\", and there is no such user", given));
  }
  if (uid == owner.uid) return Unit{};
  return refused(
      fmt::format("the process at {} belongs to uid {}, which is neither root, nor this user, nor "
                  "{}; if its node may "
                  "have your token and memory, set $TALLY_NODE_USER to that user's name",
                  address, owner.uid, user));
}

}  // namespace tally::rpc
