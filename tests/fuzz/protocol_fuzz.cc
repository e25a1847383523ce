// The protocol's state machine against a model: two jobs whose ranks announce what they like, in
// any order, lie about rounds, cancel, die, and whose tiles fail. The model knows only what every
// rank is promised: each notice is answered exactly once, with its own cookie, unless its rank is
// gone; success comes only to operations that all ranks announced alike, after every element of the
// part was moved exactly once; and no tile of an operation moves once it has been answered.
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "dataplane/partition/granules.h"
#include "dataplane/protocol/aggregator.h"
#include "tests/fuzz/input.h"

namespace {

using tally::Nanos;
using tally::Status;
using tally::fuzz::Input;
using tally::fuzz::require;
namespace protocol = tally::protocol;
namespace wire = tally::wire;

constexpr std::uint32_t kJobs = 2;
constexpr std::uint16_t kRanks = 3;
constexpr std::uint32_t kMembers = kJobs * kRanks;
constexpr std::uint32_t kCredit = 3;
constexpr std::uint32_t kEpoch = 1;
// Tells announcements apart by where their inputs are.
constexpr std::uint64_t kStride = 1 << 20;

struct Announced {
  protocol::SessionId member = 0;
  wire::Notice notice;
  bool answered = false;
  std::uint64_t moved = 0;  // elements
};

class Model {
 public:
  Model() : aggregator_(config()) {
    for (std::uint32_t job = 0; job < kJobs; ++job) {
      aggregator_.add_job(job,
                          {.epoch = kEpoch, .ranks = kRanks, .weight = job + 1, .credit = kCredit});
      for (std::uint16_t rank = 0; rank < kRanks; ++rank) {
        aggregator_.join(job, rank, job * kRanks + rank);
      }
    }
  }

  void tile_event(Input& input) {
    now_ += input.pick(4) * tally::kMillisecond;
    switch (input.pick(8)) {
      case 0:
      case 1:
      case 2:
        announce(input);
        break;
      case 3:
        cancel(input);
        break;
      case 4:
        start();
        break;
      case 5:
        end(input);
        break;
      case 6:
        aggregator_.expire(now_);
        break;
      case 7:
        if (input.pick(16) == 0) die(input.pick(kMembers));
        break;
    }
    take_answers();
  }

  // Everything that was announced ends, at its deadline if not before.
  void finish() {
    now_ += 3600 * tally::kSecond;
    aggregator_.expire(now_);
    for (std::size_t i = 0; i < tiles_.size(); ++i) end_tile(tiles_[i], Status::kOk);
    tiles_.clear();
    take_answers();
    while (start()) {
      end_tile(tiles_.back(), Status::kOk);
      tiles_.pop_back();
      take_answers();
    }
    for (const Announced& announced : announced_) {
      require(announced.answered || gone_.contains(announced.member), "every notice is answered");
    }
  }

 private:
  static protocol::AggregatorConfig config() {
    protocol::AggregatorConfig config;
    config.plan = protocol::even_partition(1, 1 << 30);
    config.tile_bytes = 4096;
    config.tiles = 4;
    config.window_bytes = 64 << 10;
    config.default_deadline = tally::kSecond;
    return config;
  }

  void announce(Input& input) {
    Announced announced;
    announced.member = input.pick(kMembers);
    if (gone_.contains(announced.member)) return;
    wire::Notice& n = announced.notice;
    n.kind = static_cast<wire::Kind>(1 + input.pick(6));
    n.epoch = input.pick(32) == 0 ? kEpoch + 1 : kEpoch;
    n.tag = input.pick(4);
    n.round = input.pick(3);
    n.count = n.kind == wire::Kind::kBarrier ? 0 : std::uint64_t{input.pick(4)} * 1500;
    n.root = n.kind == wire::Kind::kReduce || n.kind == wire::Kind::kBroadcast
                 ? static_cast<std::uint16_t>(input.pick(2))
                 : 0;
    n.deadline_ms = input.pick(8);
    n.priority = static_cast<std::uint8_t>(input.pick(3));
    n.cookie = static_cast<std::uint32_t>(announced_.size());
    n.in_region = n.out_region = 1;
    n.side_region = 2;
    if (n.kind != wire::Kind::kBarrier && input.pick(2) == 0) n.flags = wire::kHasChecksums;
    n.in_offset = announced_.size() * kStride;
    announced_.push_back(announced);
    const Status admissible = input.pick(16) == 0 ? Status::kBadRegion : Status::kOk;
    aggregator_.announce(announced.member, n, admissible, now_);
  }

  void cancel(Input& input) {
    if (announced_.empty()) return;
    const Announced& victim = announced_[input.take<std::uint16_t>() % announced_.size()];
    if (gone_.contains(victim.member)) return;
    wire::Notice n = victim.notice;
    n.kind = wire::Kind::kCancel;
    n.root = wire::kNoRank;
    aggregator_.announce(victim.member, n, Status::kOk, now_);
  }

  bool start() {
    protocol::Tile tile;
    if (!aggregator_.tiles().start_tile(tile)) return false;
    require(tile.count > 0 && !tile.sources.empty(), "a tile moves something");
    for (const auto& source : tile.sources) {
      Announced& announced = announced_.at(source.offset / kStride);
      require(announced.member == source.member, "a source lies where its rank said");
      require(!announced.answered, "nothing moves for who has been answered");
    }
    for (const auto& [source, where] : tile.checksums) {
      const protocol::Endpoint& bytes = tile.sources.at(source);
      const Announced& announced = announced_.at(bytes.offset / kStride);
      require(announced.member == where.member, "checksums are of who gave the bytes");
      const auto side = aggregator_.extents(where.member, announced.notice).side;
      require(where.offset + where.bytes <= side.bytes, "checksums lie where they were announced");
      require((where.bytes / 4 - 1) * protocol::kGranuleBytes + tile.lead >= bytes.bytes,
              "every granule has one");
    }
    tiles_.push_back(std::move(tile));
    return true;
  }

  void end(Input& input) {
    if (tiles_.empty()) return;
    const std::size_t i = input.take<std::uint8_t>() % tiles_.size();
    const Status status = input.pick(16) == 0 ? Status::kInternal : Status::kOk;
    end_tile(tiles_[i], status);
    tiles_.erase(tiles_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void end_tile(protocol::Tile& tile, Status status) {
    const bool wanted = aggregator_.tiles().wanted(tile);
    if (wanted) {
      aggregator_.tiles().pulling(tile, now_);
      aggregator_.tiles().storing(tile, now_);
      aggregator_.tiles().stored(tile, now_);
    }
    for (const auto& source : tile.sources) {
      Announced& announced = announced_.at(source.offset / kStride);
      require(!announced.answered || gone_.contains(announced.member),
              "nobody is answered while a tile of his is in flight");
      announced.moved += source.bytes / 4;
    }
    aggregator_.tiles().end_tile(tile, status, tile.sources.front().member, now_);
  }

  void die(protocol::SessionId member) {
    if (!gone_.insert(member).second) return;
    aggregator_.gone(member / kRanks, static_cast<std::uint16_t>(member % kRanks),
                     Status::kPeerLost, now_);
  }

  void take_answers() {
    for (const protocol::Outgoing& outgoing : aggregator_.outbox().completions()) {
      const wire::Completion& completion = outgoing.completion;
      require(completion.cookie < announced_.size(), "an answer has a cookie that was given");
      Announced& announced = announced_[completion.cookie];
      require(announced.member == outgoing.member, "an answer goes to who asked");
      require(!gone_.contains(announced.member), "the dead are not answered");
      require(!announced.answered, "a notice is answered once");
      require(completion.tag == announced.notice.tag && completion.round == announced.notice.round,
              "an answer names the operation");
      announced.answered = true;
      if (completion.status == Status::kOk) check_success(announced);
    }
    aggregator_.outbox().clear_completions();
  }

  // All ranks have announced the same, and all of it was moved.
  void check_success(const Announced& one) const {
    const std::uint32_t job = one.member / kRanks;
    std::set<protocol::SessionId> alike;
    for (const Announced& other : announced_) {
      const wire::Notice &a = one.notice, &b = other.notice;
      if (other.member / kRanks == job && a.tag == b.tag && a.round == b.round &&
          a.kind == b.kind && a.count == b.count && a.root == b.root) {
        alike.insert(other.member);
      }
    }
    require(alike.size() == kRanks, "success needs all ranks, alike");
    const protocol::Shape shape{one.notice.kind, one.notice.type, one.notice.operation,
                                one.notice.root, kRanks,          one.notice.count};
    const auto rank = static_cast<std::uint16_t>(one.member % kRanks);
    require(one.moved == protocol::contribution(shape, rank).count,
            "every element is moved exactly once");
  }

  protocol::Aggregator aggregator_;
  std::vector<Announced> announced_;
  std::vector<protocol::Tile> tiles_;
  std::set<protocol::SessionId> gone_;
  Nanos now_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  Model model;
  while (!input.empty()) model.tile_event(input);
  model.finish();
  return 0;
}
