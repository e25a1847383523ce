#include "dataplane/transport/onesided/sessions.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::transport::onesided {

std::optional<Remote> Session::remote(const Range& range) const {
  const Region* region = regions.find(range.region);
  if (region == nullptr || region->bytes == 0) return std::nullopt;
  const bool inside = range.offset <= region->bytes && range.bytes <= region->bytes - range.offset;
  if (!inside) return std::nullopt;
  return Remote{region->base + range.offset, region->key};
}

void Session::refuse(std::string reason) {
  if (!broken) why = std::move(reason);
  broken = true;
}

void Sessions::add(Peer peer, std::unique_ptr<Session> session) {
  if (peer >= sessions_.size()) sessions_.resize(peer + 1);
  sessions_[peer] = std::move(session);
}

std::size_t Sessions::attached_count() const {
  return static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(), [](const auto& session) { return session != nullptr; }));
}

std::size_t Sessions::lost(std::span<Peer> out, Nanos now) {
  std::size_t count = 0;
  const Nanos passed = now - std::exchange(last_watch_, now);
  for (Peer peer = 0; peer < sessions_.size() && count < out.size(); ++peer) {
    Session* session = sessions_[peer].get();
    if (session == nullptr) continue;
    const std::size_t waiting = session->reads.size() + session->writes.size();
    if (const std::size_t open = session->watch.stalled(waiting, passed); open > 0) {
      session->refuse(fmt::format("none of {} operations on its memory has ended for {} s", open,
                                  StallWatch::kStalled / kSecond));
    }
    if (!session->broken || session->reported) continue;
    session->reported = true;
    out[count++] = peer;
  }
  return count;
}

bool Sessions::has_lost() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& session) {
    return session != nullptr && session->broken && !session->reported;
  });
}

}  // namespace tally::transport::onesided
