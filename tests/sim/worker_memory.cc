// The part of a worker that looks at its memory.
#include <algorithm>
#include <cstring>

#include "tests/sim/worker.h"
#include "tests/support/checksums.h"

namespace tally::sim {
namespace {

// Any bits, or numbers whose sums depend on their order: sign and mantissa are random, the exponent
// is that of 1/2.
void fill_elements(Random& random, ElementType type, std::span<std::byte> out) {
  std::uint64_t keep = ~0ULL;
  std::uint64_t set = 0;
  if (random.chance(0.6)) {
    switch (type) {
      case ElementType::kF32:
        keep = 0x807fffff807fffff, set = 0x3f0000003f000000;
        break;
      case ElementType::kF64:
        keep = 0x800fffffffffffff, set = 0x3fe0000000000000;
        break;
      case ElementType::kF16:
        keep = 0x83ff83ff83ff83ff, set = 0x3800380038003800;
        break;
      case ElementType::kBf16:
        keep = 0x807f807f807f807f, set = 0x3f003f003f003f00;
        break;
      default:
        break;
    }
  }
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const std::uint64_t bits = (random.next() & keep) | set;
    std::memcpy(out.data() + at, &bits, std::min<std::size_t>(8, out.size() - at));
  }
}

std::span<std::byte> stats_range(const Buffer& buffer, std::uint64_t count, bool shadow) {
  const std::uint64_t blocks = (count + summation::kStatsBlock - 1) / summation::kStatsBlock;
  return (shadow ? buffer.shadow : buffer.memory).first(blocks * sizeof(summation::BlockStats));
}

template <typename T>
std::ptrdiff_t first_difference(std::span<T> a, std::span<T> b) {
  return std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
}

}  // namespace

// The buffer that a region number of a notice means.
Buffer Worker::buffer(const wire::Notice& notice, std::uint32_t region) const {
  const TagMemory& memory = memory_[notice.tag];
  return region == 3 * notice.tag + 2 ? memory.out : memory.in;
}

std::span<std::byte> Worker::range_of(std::span<std::byte> memory, const wire::Notice& notice,
                                      bool result) const {
  const protocol::Shape shape{notice.kind, notice.type,      notice.operation,
                              notice.root, world_.job.ranks, notice.count};
  const auto extent =
      result ? protocol::result(shape, rank_) : protocol::contribution(shape, rank_);
  return memory.subspan(result ? notice.out_offset : notice.in_offset,
                        extent.count * element_bytes(notice.type));
}

const std::byte* Worker::input(std::size_t op) const {
  const wire::Notice& notice = posted_[op].notice;
  return buffer(notice, notice.in_region).shadow.data() + notice.in_offset;
}

std::span<const std::byte> Worker::result(std::size_t op) const {
  const wire::Notice& notice = posted_[op].notice;
  return range_of(buffer(notice, notice.out_region).memory, notice, true);
}

// Poison everywhere, then the contribution.
void Worker::prepare_memory(std::size_t op) {
  const wire::Notice& notice = posted_[op].notice;
  const TagMemory& memory = memory_[notice.tag];
  const auto poison = static_cast<std::byte>(0xa0 + op);
  for (const Buffer* b : {&memory.in, &memory.out, &memory.stats}) {
    std::fill(b->shadow.begin(), b->shadow.end(), poison);
  }
  const auto contribution = range_of(memory.in.shadow, notice, false);
  fill_elements(world_.random, notice.type, contribution);
  if ((notice.flags & wire::kHasChecksums) != 0) {
    const bool stats = (notice.flags & wire::kWantStats) != 0;
    testing::write_checksums(
        posted_[op].shape, rank_, contribution.data(),
        memory.stats.shadow.data() + protocol::checksums_offset(notice.count, stats));
  }
  for (const Buffer* b : {&memory.in, &memory.out, &memory.stats}) {
    std::copy(b->shadow.begin(), b->shadow.end(), b->memory.begin());
  }
}

void Worker::compare(const Buffer& buffer, std::uint32_t tag, const char* what) const {
  if (std::memcmp(buffer.memory.data(), buffer.shadow.data(), buffer.memory.size()) == 0) return;
  violated("job {} rank {} tag {}: {} (byte {} of {})", world_.job.epoch, rank_, tag, what,
           first_difference(buffer.memory, buffer.shadow), buffer.memory.size());
}

void Worker::finish_ok(std::size_t op, const testing::Expected& expected) {
  const wire::Notice& notice = posted_[op].notice;
  const TagMemory& memory = memory_[notice.tag];
  const auto result = testing::result_of(posted_[op].shape, rank_, expected);
  const Buffer out = buffer(notice, notice.out_region);
  std::copy(result.begin(), result.end(), range_of(out.shadow, notice, true).begin());
  if ((notice.flags & wire::kWantStats) != 0 && !result.empty()) {
    const auto stats = stats_range(memory.stats, notice.count, true);
    std::memcpy(stats.data(), expected.stats.data(), stats.size());
  }
  compare(memory.in, notice.tag, "the input was changed, or its result in place is wrong");
  compare(memory.out, notice.tag, "a wrong result, or a write beside it");
  compare(memory.stats, notice.tag, "wrong statistics, or a write beside them");
}

// Result bytes may stand in the result's range if the operation had started; nowhere else.
void Worker::finish_failed(std::size_t op, bool started) {
  const wire::Notice& notice = posted_[op].notice;
  const TagMemory& memory = memory_[notice.tag];
  if (started && notice.out_region < 1000) {
    const Buffer out = buffer(notice, notice.out_region);
    const auto now = range_of(out.memory, notice, true);
    std::copy(now.begin(), now.end(), range_of(out.shadow, notice, true).begin());
    if ((notice.flags & wire::kWantStats) != 0) {
      const auto stats = stats_range(memory.stats, notice.count, false);
      std::copy(stats.begin(), stats.end(), memory.stats.shadow.begin());
    }
  }
  compare(memory.in, notice.tag, "a failed operation changed its input");
  compare(memory.out, notice.tag, "a failed operation wrote where it had not started");
  compare(memory.stats, notice.tag, "a failed operation wrote statistics");
}

void Worker::check_quiet(std::uint32_t tag) const {
  const TagMemory& memory = memory_[tag];
  for (const Buffer* b : {&memory.in, &memory.out, &memory.stats}) {
    compare(*b, tag, "was written after its buffers had come back");
  }
}

void Worker::check_all_quiet() const {
  if (presence_ == Presence::kLost) return;  // nobody looks at it any more
  for (std::uint32_t tag = 0; tag < memory_.size(); ++tag) check_quiet(tag);
}

// What stands now is what has to stand for ever.
void Worker::fence(Nanos now) {
  world_.trace.write(now, "job {} rank {} fences the node off", world_.job.epoch, rank_);
  for (auto* node : world_.nodes) node->fence(peer_);
  for (const TagMemory& memory : memory_) {
    for (const Buffer* b : {&memory.in, &memory.out, &memory.stats}) {
      frozen_.insert(frozen_.end(), b->memory.begin(), b->memory.end());
    }
  }
}

void Worker::check_fence() const {
  if (frozen_.empty()) return;
  auto frozen = frozen_.begin();
  for (const TagMemory& memory : memory_) {
    for (const Buffer* b : {&memory.in, &memory.out, &memory.stats}) {
      if (!std::equal(b->memory.begin(), b->memory.end(), frozen)) {
        violated("job {} rank {}: written behind its fence", world_.job.epoch, rank_);
      }
      frozen += static_cast<std::ptrdiff_t>(b->memory.size());
    }
  }
}

void Worker::check_credit() {
  std::vector<std::uint32_t> left(world_.nodes.size(), world_.job.credit);
  wire::Notice notice;
  notice.kind = wire::Kind::kBarrier;
  for (notice.tag = 1000; notice.tag < 1400; ++notice.tag) {
    const std::uint32_t home = protocol::home_tree(world_.schedule.plan, {.tag = notice.tag});
    const Status status = book_.post(notice, 0, kForever, outbound_);
    if (left[home] > 0 && status != Status::kOk) violated("credit of shard {} is gone", home);
    if (left[home] > 0) --left[home];
  }
  outbound_.clear();
  book_.abandon(Status::kNodeLost);
}

}  // namespace tally::sim
