#include "tests/support/perf/fake_tally.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "client/include/tally/tally.h"
#include "perf/options/schedule.h"
#include "summation/reduce.h"

struct tally_region {
  std::unique_ptr<std::byte[]> own;
  std::byte* data = nullptr;
};

struct tally_session {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t outstanding = 0;
  std::vector<std::unique_ptr<tally_region>> regions;
  std::deque<tally_completion> completions;
};

namespace tally::perf::fake {
namespace {

struct Posted {
  tally_session* session = nullptr;
  tally_operation operation{};
};

std::mutex mutex;
std::condition_variable changed;
Faults faults;
std::uint64_t operations_done = 0;
std::map<std::uint32_t, std::vector<Posted>> waiting;  // by tag

std::byte* at(const tally_buffer& buffer) {
  return buffer.region == nullptr ? nullptr : buffer.region->data + buffer.offset;
}

// One range of elements from its contributors to its receivers.
void move(const std::vector<Posted>& ranks, Extent range, std::vector<std::uint32_t> from,
          std::vector<std::uint32_t> to, std::vector<summation::BlockStats>& stats) {
  const tally_operation& first = ranks[0].operation;
  const auto type = static_cast<ElementType>(first.type);
  const std::size_t bytes = element_bytes(type);
  const auto count = static_cast<std::uint32_t>(ranks.size());
  const auto place = [&](const tally_buffer& buffer, Extent held) {
    return at(buffer) + (range.first - held.first) * bytes;
  };
  std::vector<View> inputs;
  std::vector<Span> spans(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Extent held = contribution(first.kind, first.count, from[i], count, first.root);
    spans[i] = Span{place(ranks[from[i]].operation.in, held), range.count * bytes};
    inputs.push_back(View(&spans[i], 1));
  }
  std::vector<std::byte*> outputs;
  for (const std::uint32_t rank : to) {
    const Extent held = perf::result(first.kind, first.count, rank, count, first.root);
    outputs.push_back(place(ranks[rank].operation.out, held));
  }
  if (from.size() == 1 && (first.kind == TALLY_BROADCAST || first.kind == TALLY_ALL_GATHER)) {
    for (std::byte* out : outputs) std::memmove(out, spans[0].data, range.count * bytes);
    return;
  }
  stats.resize((range.count + summation::kStatsBlock - 1) / summation::kStatsBlock);
  summation::reduce(*summation::kernels(summation::best_isa()),
                    {.type = type,
                     .operation = static_cast<Operation>(first.op),
                     .divisor = count,
                     .count = range.count,
                     .inputs = inputs,
                     .outputs = outputs,
                     .stats = stats});
}

std::vector<summation::BlockStats> move_all(const std::vector<Posted>& ranks) {
  const tally_operation& first = ranks[0].operation;
  const auto count = static_cast<std::uint32_t>(ranks.size());
  std::vector<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < count; ++rank) all.push_back(rank);
  const Extent whole{0, first.count};
  std::vector<summation::BlockStats> stats;
  switch (first.kind) {
    case TALLY_ALL_REDUCE:
      move(ranks, whole, all, all, stats);
      break;
    case TALLY_REDUCE:
      move(ranks, whole, all, {first.root}, stats);
      break;
    case TALLY_BROADCAST:
      move(ranks, whole, {first.root}, all, stats);
      break;
    case TALLY_REDUCE_SCATTER:
    case TALLY_ALL_GATHER:
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        const Extent share = owned_extent(first.count, rank, count);
        const std::vector<std::uint32_t> one = {rank};
        const bool scatter = first.kind == TALLY_REDUCE_SCATTER;
        if (share.count != 0) move(ranks, share, scatter ? all : one, scatter ? one : all, stats);
      }
      break;
    case TALLY_BARRIER:
      break;
  }
  return stats;
}

void do_harm(const Posted& victim) {
  const tally_operation& operation = victim.operation;
  const auto bytes = element_bytes(static_cast<ElementType>(operation.type)) *
                     perf::result(operation.kind, operation.count, victim.session->rank,
                                  victim.session->ranks, operation.root)
                         .count;
  if (operations_done >= faults.flip_after) at(operation.out)[bytes / 2] ^= std::byte{1};
  if (operations_done >= faults.stray_after) at(operation.out)[bytes] ^= std::byte{1};
  if (operations_done >= faults.input_after) at(operation.in)[0] ^= std::byte{1};
}

void complete(std::vector<Posted>& posted) {
  std::sort(posted.begin(), posted.end(),
            [](const Posted& a, const Posted& b) { return a.session->rank < b.session->rank; });
  const bool data = posted[0].operation.count != 0;
  const bool fails = data && operations_done >= faults.fail_after;
  double squares = faults.wrong_stats ? 1 : 0;
  std::uint64_t nonfinite = 0;
  if (data && !fails) {
    for (const auto& block : move_all(posted)) {
      squares += block.sum_of_squares;
      nonfinite += block.nonfinite;
    }
    do_harm(posted[faults.rank]);
    ++operations_done;
  }
  for (const Posted& one : posted) {
    tally_completion completion{};
    completion.size = sizeof completion;
    completion.status = fails ? TALLY_PEER_LOST : TALLY_OK;
    completion.tag = one.operation.tag;
    completion.user = one.operation.user;
    completion.culprit = fails ? faults.rank : TALLY_NO_RANK;
    completion.sum_of_squares = squares;
    completion.nonfinite = nonfinite;
    std::strncpy(completion.message, fails ? "on request" : "", sizeof completion.message - 1);
    one.session->completions.push_back(completion);
  }
  posted.clear();
  changed.notify_all();
}

}  // namespace

void reset(const Faults& wanted) {
  const std::lock_guard lock(mutex);
  faults = wanted;
  operations_done = 0;
  waiting.clear();
}

}  // namespace tally::perf::fake

using namespace tally::perf::fake;

tally_status tally_open(const tally_session_options* options, tally_session** session) {
  *session = new tally_session;
  (*session)->rank = options->rank;
  (*session)->ranks = options->ranks;
  return TALLY_OK;
}

void tally_close(tally_session* session) {
  delete session;
}
const char* tally_last_error(const tally_session*) {
  return "as the fake was told";
}
const char* tally_status_name(tally_status status) {
  return status == TALLY_PEER_LOST ? "peer lost" : "status";
}

tally_status tally_get_info(const tally_session* session, tally_session_info* info) {
  *info =
      tally_session_info{sizeof *info, session->rank, session->ranks, 1, faults.credit, 1, "fake"};
  return TALLY_OK;
}

tally_status tally_region_alloc(tally_session* session, size_t bytes, tally_region** region,
                                void** data) {
  auto made = std::make_unique<tally_region>();
  made->own = std::make_unique<std::byte[]>(bytes);
  made->data = made->own.get();
  *data = made->data;
  *region = made.get();
  session->regions.push_back(std::move(made));
  return TALLY_OK;
}

tally_status tally_region_register(tally_session* session, const tally_memory* memory,
                                   tally_region** region) {
  auto made = std::make_unique<tally_region>();
  made->data = static_cast<std::byte*>(memory->data);
  *region = made.get();
  session->regions.push_back(std::move(made));
  return TALLY_OK;
}

tally_status tally_post(tally_session* session, const tally_operation* operation) {
  const std::lock_guard lock(tally::perf::fake::mutex);
  if (session->outstanding == faults.credit) return TALLY_NO_CREDIT;
  ++session->outstanding;
  std::vector<Posted>& posted = waiting[operation->tag];
  posted.push_back(Posted{session, *operation});
  if (posted.size() == session->ranks) complete(posted);
  return TALLY_OK;
}

tally_status tally_wait(tally_session* session, tally_completion* completion, int) {
  std::unique_lock lock(tally::perf::fake::mutex);
  changed.wait(lock, [&] { return !session->completions.empty(); });
  *completion = session->completions.front();
  session->completions.pop_front();
  --session->outstanding;
  return TALLY_OK;
}
