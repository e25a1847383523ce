// How a session begins and ends, and its regions: everything that speaks to the node's control.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "base/epoll.h"
#include "client/address.h"
#include "client/make_link.h"
#include "client/session.h"
#include "dataplane/protocol/granules.h"

namespace tally::client {
namespace {

using nlohmann::json;

constexpr Nanos kCallTimeout = 30 * kSecond;  // of control: a region of many GB takes seconds
constexpr Nanos kGoodbye = 5 * kSecond;       // for what is outstanding when a session ends

}  // namespace

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  if (!options.checksums) {
    const auto said = default_checksums();
    if (!said) return said.error();
    options.checksums = *said;
  }
  auto entry = enter_job(options);
  if (!entry) return entry.error();
  const auto said = std::move(entry->said);
  std::unique_ptr<Session> session(new Session(std::move(options), std::move(entry).value()));
  if (auto watched = session->watch(*session->now_); !watched) return watched.error();
  for (const auto& [warning, text] : said) session->log(warning ? 1 : 0, text);
  return session;
}

Session::Session(SessionOptions options, JobEntry entry)
    : options_(std::move(options)),
      now_(std::make_unique<PlanVersion>(std::move(entry.book), std::move(entry.nodes),
                                         std::move(entry.names))),
      crc32c_(entry.crc32c) {
  if (options_.deadline_ms == 0) options_.deadline_ms = entry.deadline_ms;
  if (entry.coordinator) {
    auto news = PlanNews::open(std::move(*entry.coordinator));
    if (news) news_ = std::move(news).value();
  }
  if (news_ || now_->nodes.size() > 1) epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
}

Outcome Session::watch(const PlanVersion& version) {
  const bool coordinator = news_ && now_.get() == &version;
  const bool alone = !news_ && now_->nodes.size() == 1;
  const bool watched =
      alone || (epoll_ && version.nodes.watch_in(epoll_.get()) &&
                (!coordinator || tally::watch(epoll_.get(), news_->fd(), EPOLLIN)));
  if (watched) return Unit{};
  return Error{Status::kNoMemory,
               fmt::format("descriptors for a session: {}", std::strerror(errno))};
}

Session::~Session() {
  debug_step(DebugStep::kClientBeforeClose);
  if (lost_) return;
  drain();
  // The node lets go of the memory before it answers; without an answer it may not have.
  for (PlanVersion* version : versions()) {
    if (lost_) break;
    const auto closed = version->nodes.close(monotonic_now() + kCallTimeout);
    if (!closed) lose(Status::kNodeLost, closed.error().message);
  }
  if (news_) news_->leave();
}

// Takes everything outstanding back, so that the memory is the caller's again.
void Session::drain() {
  for (const Pending& pending : pending_) {
    if (is_outstanding(pending.post.notice.tag)) {
      static_cast<void>(cancel(pending.post.notice.tag));
    }
  }
  const Nanos until = monotonic_now() + kGoodbye;
  Completed ignored;
  while (!lost_ && outstanding() > 0) {
    if (wait(ignored, until).status() == Status::kAgain) {
      lose(Status::kNodeLost, "the node does not answer");
    }
  }
}

void Session::log(int level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

Result<Region*> Session::add_region(std::unique_ptr<Region> region) {
  if (lost_) return *lost_;
  auto id = number_everywhere(*region);
  if (!id) return id.error();
  region->id = *id;
  debug_step(DebugStep::kClientRegionAdded);
  regions_.push_back(std::move(region));
  return regions_.back().get();
}

// All versions know it by the same number.
Result<std::uint32_t> Session::number_everywhere(const Region& region) {
  const Nanos deadline = monotonic_now() + kCallTimeout;
  auto id = now_->nodes.add_region(region, deadline);
  if (id && old_) {
    const auto added = old_->nodes.add_region(region, deadline, *id);
    if (!added) {
      now_->nodes.take_back(region, *id, monotonic_now() + kCallTimeout);
      return added.error();
    }
  }
  if (id && next_) {
    const auto added = next_->nodes.add_region(region, deadline, *id);
    if (!added) call_off(added.error().message);
  }
  return id;
}

MemoryNeeds Session::memory_needs() const {
  MemoryNeeds needs = now_->nodes.memory_needs();
  for (const PlanVersion* version : versions()) {
    const MemoryNeeds more = version->nodes.memory_needs();
    needs.shared |= more.shared;
    needs.adapter &= more.adapter;
  }
  return needs;
}

const char* Session::transport() {
  return transports_.emplace(now_->nodes.transport()).first->c_str();
}

bool Session::owns(const Region* region) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [&](const auto& own) { return own.get() == region; });
}

Outcome Session::remove_region(Region* region) {
  if (region->outstanding > 0) {
    return Error{Status::kAgain,
                 fmt::format("{} operations on the region are outstanding", region->outstanding)};
  }
  for (PlanVersion* version : versions()) {
    if (lost_) {
      version->nodes.withdraw(*region);
      continue;
    }
    auto done = version->nodes.remove_region(*region, monotonic_now() + kCallTimeout);
    if (!done) return done.error();
  }
  std::erase_if(regions_, [&](const auto& own) { return own.get() == region; });
  return Unit{};
}

// For what the node writes and reads beside the data.
Outcome Session::take_side_region(const protocol::Shape& shape, Pending& pending,
                                  wire::Notice& notice) {
  if (pending.post.stats) notice.flags |= wire::kWantStats;
  std::uint64_t bytes = protocol::checksums_offset(shape.count, pending.post.stats);
  if (crc32c_ != nullptr && pending.extents.in.count > 0) {
    notice.flags |= wire::kHasChecksums;
    bytes += protocol::checksum_bytes(shape, book_config().rank);
  }
  if (notice.flags == 0) return Unit{};
  auto region = side_region(bytes);
  if (!region) return region.error();
  pending.side = *region;
  notice.side_region = pending.side->id;
  return Unit{};
}

// Memory of the session's own: a pool, since registration costs a call. In few sizes, so that
// operations of any size soon find what others have used.
Result<Region*> Session::side_region(std::uint64_t bytes) {
  constexpr std::uint64_t kLeast = 4096;
  const std::uint64_t wanted = std::bit_ceil(std::max(bytes, kLeast));
  for (const auto& region : side_regions_) {
    if (region->outstanding == 0 && region->bytes() == wanted) return region.get();
  }
  auto made = Region::allocate(wanted);
  if (!made) return made.error();
  auto id = number_everywhere(**made);
  if (!id) return id.error();
  (*made)->id = *id;
  side_regions_.push_back(std::move(made).value());
  return side_regions_.back().get();
}

}  // namespace tally::client
