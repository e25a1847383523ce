#include "tests/support/roce/cable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dataplane/transport/roce/wire/network_order.h"

namespace tally::testing {

namespace roce = transport::roce;

namespace {

// A frame that is swapped arrives so much later, at least and at most. Some of these times are
// longer than a queue pair waits before it takes a packet for lost.
constexpr Nanos kLeastDelay = 10'000;
constexpr Nanos kMostDelay = 400'000;
constexpr std::size_t kMostWaiting = 1 << 14;
constexpr int kMostFlips = 3;
// The ICRC does not cover the MAC addresses, nor what routers change in the IP header. All bits
// behind these headers matter, but for the byte of FECN and BECN, which counts as ones.
constexpr std::size_t kEthernet = 14, kIp = 20;
constexpr std::size_t kBase = kEthernet + kIp + 8;
constexpr std::size_t kUncovered = kBase + 4;

}  // namespace

CableFaults parse_faults(std::string_view text) {
  CableFaults faults;
  const std::map<std::string_view, double*> chances = {{"loss", &faults.loss},
                                                       {"double", &faults.twice},
                                                       {"swap", &faults.swap},
                                                       {"damage", &faults.damage},
                                                       {"mark", &faults.mark}};
  const std::string whole(text);
  const auto wrong = [&whole](const char* what) {
    return std::invalid_argument(
        fmt::format("TALLY_TEST_CABLE is \"{}\": {}; write it like "
                    "seed=7,loss=0.01,double=0.01,swap=0.01,damage=0.01,mark=0.01",
                    whole, what));
  };
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) throw wrong("a part has no value");
    const std::string value(part.substr(equals + 1));
    char* end = nullptr;
    if (part.substr(0, equals) == "seed") {
      faults.seed = std::strtoull(value.c_str(), &end, 10);
    } else {
      const auto found = chances.find(part.substr(0, equals));
      if (found == chances.end()) throw wrong("a name is unknown");
      *found->second = std::strtod(value.c_str(), &end);
      if (*found->second < 0 || *found->second > 1) throw wrong("a chance is not from 0 to 1");
    }
    if (value.empty() || *end != '\0') throw wrong("a value is not a number");
  }
  return faults;
}

std::string to_text(const CableCounters& counters) {
  return fmt::format(
      "{} frames, {} lost, {} doubled, {} swapped, {} damaged, {} marked, {} refused, {} to no "
      "station, {} without room",
      counters.sent.load(), counters.lost.load(), counters.doubled.load(), counters.swapped.load(),
      counters.damaged.load(), counters.marked.load(), counters.refused.load(),
      counters.no_station.load(), counters.no_room.load());
}

// -- stations ------------------------------------------------------------------------------------

Station::Station(Cable& cable, std::uint16_t number) : cable_(cable) {
  const auto high = static_cast<std::uint8_t>(number >> 8);
  const auto low = static_cast<std::uint8_t>(number);
  mac_ = {2, 9, 0, 0, high, low};
  address_ = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, high, low};
  std::seed_seq seed{cable.faults_.seed, std::uint64_t{number}};
  random_.seed(seed);
}

Station::~Station() {
  const std::lock_guard lock(cable_.mutex_);
  cable_.stations_.erase(mac_);
}

bool Station::draw(double chance) {
  return chance > 0 && std::uniform_real_distribution<>(0, 1)(random_) < chance;
}

// RFC 3168, section 5.
FrameBytes Station::marked(FrameBytes frame) {
  namespace order = roce::network_order;
  const auto ip = std::span(frame).subspan(kEthernet, kIp);
  const std::byte congested{roce::kEcnCongested};
  if ((ip[1] & congested) == std::byte{0}) return frame;
  ip[1] |= congested;
  order::put(ip, 10, 2, 0);
  order::put(ip, 10, 2, order::checksum_of(order::sum_of(ip)));
  ++cable_.counters_.marked;
  return frame;
}

void Station::damage(FrameBytes& frame) {
  const auto below = [this](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  };
  const int flips = 1 + static_cast<int>(below(kMostFlips));
  std::vector<std::size_t> flipped;
  while (flipped.size() < static_cast<std::size_t>(flips)) {
    const std::size_t at = kBase + below(frame.size() - kBase);
    const std::size_t bit = at * 8 + below(8);
    // The same bit twice would be no damage.
    const bool is_new = std::find(flipped.begin(), flipped.end(), bit) == flipped.end();
    if (at == kUncovered || !is_new) continue;
    flipped.push_back(bit);
    frame[at] ^= std::byte{1} << bit % 8;
  }
}

void Station::send(const FrameBytes& sent) {
  const CableFaults& faults = cable_.faults_;
  CableCounters& counters = cable_.counters_;
  roce::MacAddress target;
  std::memcpy(target.data(), sent.data(), target.size());
  const std::shared_ptr<Station> receiver = cable_.at(target);
  const std::lock_guard lock(sending_);
  const FrameBytes frame = draw(faults.mark) ? marked(sent) : sent;
  if (cable_.recording_ != nullptr) cable_.recording_->add(frame);
  ++counters.sent;
  if (draw(faults.loss)) {
    ++counters.lost;
    return;
  }
  const bool is_doubled = draw(faults.twice);
  if (is_doubled) ++counters.doubled;
  for (int copy = 0; copy <= (is_doubled ? 1 : 0); ++copy) {
    if (copy > 0) ++counters.sent;
    Waiting waiting{frame, draw(faults.damage)};
    Nanos due = 0;
    if (draw(faults.swap)) {
      due =
          monotonic_now() + std::uniform_int_distribution<Nanos>(kLeastDelay, kMostDelay)(random_);
    }
    if (receiver == nullptr) {
      ++counters.no_station;
      continue;
    }
    if (waiting.is_damaged) {
      damage(waiting.frame);
      ++counters.damaged;
    }
    if (due != 0) ++counters.swapped;
    receiver->take(std::move(waiting), due);
  }
}

void Station::take(Waiting waiting, Nanos due) {
  const std::lock_guard lock(receiving_);
  if (waiting_.size() + late_.size() >= kMostWaiting) {
    ++cable_.counters_.no_room;
    return;
  }
  if (due == 0) {
    waiting_.push_back(std::move(waiting));
  } else {
    late_.emplace(due, std::move(waiting));
  }
  arrived_.notify_one();
}

std::optional<Station::Waiting> Station::next(Nanos now) {
  const std::lock_guard lock(receiving_);
  while (!late_.empty() && first_late() <= now) {
    waiting_.push_back(std::move(late_.begin()->second));
    late_.erase(late_.begin());
  }
  if (waiting_.empty()) return std::nullopt;
  Waiting first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

std::optional<Station::Arrived> Station::receive(Nanos now) {
  while (auto waiting = next(now)) {
    const auto packet = read_frame(waiting->frame);
    if (packet.has_value() == waiting->is_damaged) {
      throw std::logic_error(packet ? "cable: a damaged frame is taken for intact"
                                    : "cable: an intact frame is refused");
    }
    if (packet) return Arrived{*packet, std::move(waiting->frame)};
    ++cable_.counters_.refused;
  }
  return std::nullopt;
}

void Station::wait(Nanos until) {
  std::unique_lock lock(receiving_);
  for (;;) {
    const Nanos now = monotonic_now();
    const Nanos end = std::min(until, first_late());
    if (!waiting_.empty() || end <= now || std::exchange(rung_, false)) return;
    if (end == INT64_MAX) {
      arrived_.wait(lock);
    } else {
      arrived_.wait_for(lock, std::chrono::nanoseconds(end - now));
    }
  }
}

void Station::ring() {
  const std::lock_guard lock(receiving_);
  rung_ = true;
  arrived_.notify_one();
}

// -- the cable -----------------------------------------------------------------------------------

Cable::~Cable() = default;

std::shared_ptr<Station> Cable::plug_in() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Station> made(new Station(*this, ++last_));
  stations_[made->mac()] = made;
  return made;
}

std::shared_ptr<Station> Cable::at(const roce::MacAddress& mac) const {
  const std::lock_guard lock(mutex_);
  const auto found = stations_.find(mac);
  return found == stations_.end() ? nullptr : found->second.lock();
}

std::optional<roce::MacAddress> Cable::mac_of(const roce::IpAddress& address) const {
  const roce::MacAddress mac = {2, 9, 0, 0, address[14], address[15]};
  if (at(mac) == nullptr) return std::nullopt;
  return mac;
}

Cable& test_cable() {
  // Never destroyed, because stations may end as late as the process.
  static Cable& cable = *new Cable([] {
    const char* const faults = std::getenv("TALLY_TEST_CABLE");
    const char* const file = std::getenv("TALLY_TEST_RECORDING");
    return Cable(parse_faults(faults == nullptr ? "" : faults),
                 file == nullptr ? nullptr : std::make_unique<Recording>(file));
  }());
  return cable;
}

}  // namespace tally::testing
