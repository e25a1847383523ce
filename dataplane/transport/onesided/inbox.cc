#include "dataplane/transport/onesided/inbox.h"

namespace tally::transport::onesided {

bool Inbox::add(const Received& notice) {
  if (notice.peer >= notices_.size()) notices_.resize(notice.peer + 1);
  received_.push_back(notice);
  return ++notices_[notice.peer] <= kMostNotices;
}

std::size_t Inbox::take(std::span<Received> out) {
  const std::size_t count = transport::take(received_, out);
  for (const Received& notice : out.first(count)) --notices_[notice.peer];
  return count;
}

void Inbox::forget(Peer peer) {
  std::erase_if(received_, [peer](const Received& notice) { return notice.peer == peer; });
  if (peer < notices_.size()) notices_[peer] = 0;
}

}  // namespace tally::transport::onesided
