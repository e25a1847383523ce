#include "client/rails_link.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/epoll.h"

namespace tally::client {

Result<std::unique_ptr<RailsLink>> RailsLink::make(std::vector<RailLink> rails) {
  std::unique_ptr<RailsLink> made(new RailsLink());
  made->rails_ = std::move(rails);
  made->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  for (std::uint32_t rail = 0; rail < made->rails_.size(); ++rail) {
    const RailLink& one = made->rails_[rail];
    if (!made->epoll_ || !watch(made->epoll_.get(), one.link->fd(), EPOLLIN)) {
      return Error{Status::kNoMemory,
                   fmt::format("descriptors for a session: {}", std::strerror(errno))};
    }
    for (std::uint32_t shard = 0; shard < one.lanes.size(); ++shard) {
      const std::uint32_t lane = one.lanes[shard];
      if (lane >= made->places_.size()) made->places_.resize(lane + 1);
      made->places_[lane] = {rail, shard};
    }
  }
  return made;
}

std::string RailsLink::description() const {
  std::string text = fmt::format("{} NICs: ", rails_.size());
  for (const RailLink& rail : rails_) {
    text += fmt::format("{}{}", &rail == &rails_.front() ? "" : " and ", rail.link->description());
  }
  return text;
}

bool RailsLink::send(std::uint32_t lane, const wire::Notice& notice,
                     std::span<const std::byte> contribution) {
  const Place place = places_[lane];
  return rails_[place.rail].link->send(place.shard, notice, contribution);
}

bool RailsLink::send_message(std::uint32_t lane, const RingSlot& message) {
  const Place place = places_[lane];
  return rails_[place.rail].link->send_message(place.shard, message);
}

std::size_t RailsLink::eager_bytes() const {
  std::size_t least = SIZE_MAX;
  for (const RailLink& rail : rails_) least = std::min(least, rail.link->eager_bytes());
  return least;
}

std::size_t RailsLink::receive(std::uint32_t lane, std::span<RingSlot> out) {
  const Place place = places_[lane];
  return rails_[place.rail].link->receive(place.shard, out);
}

bool RailsLink::broken() const {
  return std::any_of(rails_.begin(), rails_.end(),
                     [](const RailLink& rail) { return rail.link->broken(); });
}

Result<Link::Offer> RailsLink::offer(const Region& region) {
  Offer whole;
  nlohmann::json keys(places_.size(), nullptr);
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    auto one = rails_[i].link->offer(region);
    if (!one) {
      for (std::size_t j = 0; j < i; ++j) rails_[j].link->withdraw(region);
      return one.error();
    }
    for (const std::uint32_t lane : rails_[i].lanes) keys[lane] = one->params.at("key");
    if (i == 0) whole = std::move(one).value();
  }
  whole.params["keys"] = std::move(keys);
  return whole;
}

void RailsLink::withdraw(const Region& region) {
  for (const RailLink& rail : rails_) rail.link->withdraw(region);
}

// All of them, also where one has something already.
bool RailsLink::arm(Nanos until) {
  bool armed = true;
  for (const RailLink& rail : rails_) armed &= rail.link->arm(until);
  return armed;
}

void RailsLink::disarm() {
  for (const RailLink& rail : rails_) rail.link->disarm();
}

bool RailsLink::hear() {
  bool gone = false;
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if (!rails_[i].link->hear()) continue;
    gone = true;
    gone_ = i;
  }
  return gone;
}

std::string RailsLink::why_gone() const {
  return rails_[gone_].link->why_gone();
}

bool RailsLink::fence(Nanos deadline) {
  bool fenced = true;
  for (const RailLink& rail : rails_) fenced &= rail.link->fence(deadline);
  return fenced;
}

void RailsLink::hang_up() {
  for (const RailLink& rail : rails_) rail.link->hang_up();
}

}  // namespace tally::client
