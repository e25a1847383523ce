// One shard, one job and its workers in one thread. The test calls each turn.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/engine/shard.h"
#include "dataplane/transport/mux.h"
#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"
#include "tests/support/checksums.h"
#include "tests/support/reference.h"
#include "tests/support/transport/loopback.h"
#include "tests/support/transport/random.h"

namespace tally::testing {

class SingleShard {
 public:
  static constexpr std::uint32_t kIn = 1;
  static constexpr std::uint32_t kOut = 2;
  static constexpr std::uint32_t kStats = 3;
  static constexpr std::uint64_t kRegionBytes = 128 << 10;
  static constexpr std::uint32_t kEpoch = 7;

  struct Options {
    std::uint16_t ranks = 3;
    std::uint32_t credit = 8;
    transport::LoopbackConfig loopback;
    std::uint64_t tile_bytes = 16 << 10;
    std::uint32_t tiles = 4;
    std::uint64_t window_bytes = 4 << 20;
    std::uint64_t region_bytes = kRegionBytes;
    // The odd ranks use another loopback, of the other mode, with a Mux in front of both.
    bool mixed = false;
    bool checksums = true;  // the shard checks checksums that notices carry
    // Makes a decorator between shard and loopback; null: no decorator.
    std::function<std::unique_ptr<transport::Transport>(transport::Loopback&)> decorate;
  };

  struct Worker {
    std::vector<std::byte> in, out, stats;
  };

  explicit SingleShard(const Options& options)
      : options_(options),
        loopback_(options.loopback),
        other_(other_mode(options.loopback)),
        decorator_(options.decorate ? options.decorate(loopback_) : mux(options)),
        shard_(config(options), transport()),
        workers_(options.ranks) {
    shard_.protocol().add_job(
        0, {.epoch = kEpoch, .ranks = options.ranks, .weight = 1, .credit = options.credit});
    for (std::uint16_t rank = 0; rank < options.ranks; ++rank) {
      for (auto* memory : {&workers_[rank].in, &workers_[rank].out, &workers_[rank].stats}) {
        memory->assign(options.region_bytes, std::byte{0xee});
      }
      auto& loopback = loopback_of(rank);
      loopback.connect(rank);
      loopback.add_region(rank, kIn, workers_[rank].in);
      loopback.add_region(rank, kOut, workers_[rank].out);
      loopback.add_region(rank, kStats, workers_[rank].stats);
      shard_.protocol().join(0, rank, rank);
    }
  }

  transport::Loopback& loopback() { return loopback_; }
  transport::Loopback& loopback_of(std::uint16_t rank) {
    return options_.mixed && rank % 2 == 1 ? other_ : loopback_;
  }
  transport::Transport& transport() {
    return decorator_ != nullptr ? *decorator_ : static_cast<transport::Transport&>(loopback_);
  }
  engine::Shard& shard() { return shard_; }
  Worker& worker(std::uint16_t rank) { return workers_[rank]; }
  Nanos now() const { return now_; }

  static wire::Notice notice(wire::Kind kind, std::uint64_t count, std::uint32_t tag = 1) {
    wire::Notice n;
    n.kind = kind;
    n.count = count;
    n.tag = tag;
    n.epoch = kEpoch;
    n.cookie = tag * 1000;
    n.in_region = kIn;
    n.out_region = kOut;
    return n;
  }

  // The same notice, with checksums of what the rank's memory holds now.
  wire::Notice checked(std::uint16_t rank, wire::Notice n) {
    n.flags |= wire::kHasChecksums;
    n.side_region = kStats;
    const protocol::Shape shape{n.kind, n.type, n.operation, n.root, options_.ranks, n.count};
    const bool stats = (n.flags & wire::kWantStats) != 0;
    write_checksums(shape, rank, workers_[rank].in.data() + n.in_offset,
                    workers_[rank].stats.data() + protocol::checksums_offset(n.count, stats));
    return n;
  }

  void send(std::uint16_t rank, const wire::Notice& n) {
    loopback_of(rank).send(rank, wire::encode(n));
  }
  void send_all(const wire::Notice& n) {
    for (std::uint16_t rank = 0; rank < options_.ranks; ++rank) send(rank, n);
  }

  // One turn, 1 ms later by default, so that every turn does the shard's periodic work.
  void turn(Nanos passing = kMillisecond) {
    now_ += passing;
    shard_.turn(now_);
  }
  void turns(int count) {
    while (count-- > 0) turn();
  }
  // Runs turns until there is nothing left to do.
  void settle() {
    for (int quiet = 0; quiet < 40;) {
      now_ += kMillisecond;
      quiet = shard_.turn(now_) ? 0 : quiet + 1;
    }
  }

  std::vector<wire::Completion> take(std::uint16_t rank) {
    std::vector<wire::Completion> completions;
    RingEntry entry;
    while (loopback_of(rank).take(rank, {&entry, 1}) > 0) {
      completions.emplace_back();
      if (wire::parse(entry, completions.back()) != Status::kOk) completions.clear();
    }
    return completions;
  }

  // True when no view is held and no pull, push or tile is in progress.
  bool clean() const {
    const auto quiet = [](const transport::Loopback& one) {
      return one.views_held() == 0 && one.pulls_outstanding() == 0 && one.pushes_outstanding() == 0;
    };
    return quiet(loopback_) && quiet(other_) && shard_.tiles_in_flight() == 0;
  }

  static void fill(std::span<std::byte> memory, std::uint64_t seed) {
    transport::Random random(seed);
    for (std::size_t at = 0; at + 8 <= memory.size(); at += 8) {
      const std::uint64_t bits = random.next();
      std::memcpy(memory.data() + at, &bits, 8);
    }
  }

 private:
  static engine::ShardConfig config(const Options& options) {
    engine::ShardConfig config;
    config.protocol.plan = protocol::even_partition(1, 1 << 20);
    config.protocol.tile_bytes = options.tile_bytes;
    config.protocol.tiles = options.tiles;
    config.protocol.window_bytes = options.window_bytes;
    config.kernels = summation::kernels(summation::best_isa());
    if (options.checksums) config.crc32c = Crc32c::open().value();
    config.max_ranks = options.ranks;
    return config;
  }

  static transport::LoopbackConfig other_mode(transport::LoopbackConfig config) {
    using Mode = transport::LoopbackConfig::Mode;
    config.mode = config.mode == Mode::kDirect ? Mode::kStaged : Mode::kDirect;
    return config;
  }
  std::unique_ptr<transport::Transport> mux(const Options& options) {
    if (!options.mixed) return nullptr;
    auto both =
        std::make_unique<transport::Mux>(std::vector<transport::Transport*>{&loopback_, &other_});
    for (std::uint16_t rank = 0; rank < options.ranks; ++rank) both->route(rank, rank % 2);
    return both;
  }

  Options options_;
  transport::Loopback loopback_;
  transport::Loopback other_;
  std::unique_ptr<transport::Transport> decorator_;
  engine::Shard shard_;
  std::vector<Worker> workers_;
  Nanos now_ = 0;
};

}  // namespace tally::testing
