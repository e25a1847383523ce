#include "client/api/abi_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "client/api/abi_structs.h"
#include "net/address.h"

namespace tally::client {
namespace {

static_assert(TALLY_DAMAGED == static_cast<int>(Status::kDamaged));
static_assert(TALLY_NODE_LOST == static_cast<int>(Status::kNodeLost));
static_assert(TALLY_I64 == static_cast<int>(ElementType::kI64));
static_assert(TALLY_MAX == static_cast<int>(Operation::kMax));
static_assert(TALLY_BARRIER == static_cast<int>(wire::Kind::kBarrier));

// Reads a caller's field as a number. The field may hold any value, and to read a value that is no
// enumerator as the enumeration is undefined.
template <typename Enumeration>
std::uint32_t number_of(const Enumeration& field) {
  std::uint32_t number = 0;
  static_assert(sizeof field == sizeof number);
  std::memcpy(&number, &field, sizeof number);
  return number;
}

}  // namespace

SessionOptions translate(const tally_session_options& from) {
  SessionOptions to;
  to.address = from.address != nullptr ? from.address : net::default_connect_address();
  to.job = from.job != nullptr ? from.job : "default";
  to.token = from.token != nullptr ? from.token : "";
  to.transport = from.transport != nullptr ? from.transport : net::default_transport();
  to.domain = from.ibv_pd;
  to.rank = static_cast<std::uint16_t>(from.rank);
  to.ranks = static_cast<std::uint16_t>(from.ranks);
  if (from.connect_timeout_ms != 0) to.connect_timeout = from.connect_timeout_ms * kMillisecond;
  to.deadline_ms = from.default_deadline_ms;
  if (from.checksums != 0) to.checksums = from.checksums == TALLY_CHECKSUMS_ON;
  if (from.on_rank_loss != 0) {
    to.on_rank_loss =
        from.on_rank_loss == TALLY_RANK_LOSS_FINISH ? RankLoss::kFinish : RankLoss::kFail;
  }
  to.quorum = from.quorum;
  if (from.log != nullptr) {
    to.log = [log = from.log, context = from.log_context](int level, const std::string& text) {
      log(context, level, text.c_str());
    };
  } else {
    to.log = [](int level, const std::string& text) {
      if (level > 0) std::fprintf(stderr, "tally: %s\n", text.c_str());
    };
  }
  return to;
}

Outcome check(const tally_session_options& options) {
  const auto refuse = [](std::string why) {
    return Error{Status::kInvalidArgument, std::move(why)};
  };
  if (options.ranks < 1 || options.ranks > wire::kMaxRanks) {
    return refuse(fmt::format("ranks {}: must be 1 to {}, the number of ranks of the job",
                              options.ranks, wire::kMaxRanks));
  }
  if (options.rank >= options.ranks) {
    return refuse(fmt::format("rank {}: must be 0 to {}, because ranks is {}", options.rank,
                              options.ranks - 1, options.ranks));
  }
  if (number_of(options.checksums) > TALLY_CHECKSUMS_OFF) {
    return refuse(
        fmt::format("checksums {}: must be a tally_checksums, 0 "
                    "(TALLY_CHECKSUMS_DEFAULT) to 2 (TALLY_CHECKSUMS_OFF)",
                    number_of(options.checksums)));
  }
  if (number_of(options.on_rank_loss) > TALLY_RANK_LOSS_FINISH) {
    return refuse(
        fmt::format("on_rank_loss {}: must be a tally_rank_loss, 0 (TALLY_RANK_LOSS_DEFAULT) to 2 "
                    "(TALLY_RANK_LOSS_FINISH)",
                    number_of(options.on_rank_loss)));
  }
  return Unit{};
}

namespace {

Outcome check_enumerators(const tally_operation& operation) {
  struct Field {
    const char* name;
    std::uint32_t value, least, most;
    const char* values;
  };
  const Field fields[] = {
      {"kind", number_of(operation.kind), TALLY_ALL_REDUCE, TALLY_BARRIER,
       "1 (TALLY_ALL_REDUCE) to 6 (TALLY_BARRIER)"},
      {"type", number_of(operation.type), TALLY_F32, TALLY_I64, "0 (TALLY_F32) to 7 (TALLY_I64)"},
      {"op", number_of(operation.op), TALLY_SUM, TALLY_MAX, "0 (TALLY_SUM) to 3 (TALLY_MAX)"},
  };
  for (const Field& field : fields) {
    if (field.value >= field.least && field.value <= field.most) continue;
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {}: {} {}: must be a tally_{}, {}", operation.tag, field.name,
                             field.value, field.name, field.values)};
  }
  return Unit{};
}

Outcome check_regions(const Session& session, const tally_operation& operation) {
  const auto known = [&](tally_region* region) {
    return region == nullptr || session.owns(region_of(region));
  };
  const bool in = known(operation.in.region);
  if (in && known(operation.out.region)) return Unit{};
  return Error{Status::kBadRegion,
               fmt::format("tag {}: {}.region is not a region of this session: "
                           "tally_region_alloc and tally_region_register give one, which is "
                           "good until tally_region_free",
                           operation.tag, in ? "out" : "in")};
}

Outcome check_flags(const tally_operation& operation) {
  if ((operation.flags & ~(TALLY_WANT_STATS | TALLY_PRESERVE)) != 0) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {}: flags {:#x}: must be made of 1 (TALLY_WANT_STATS) and 2 "
                             "(TALLY_PRESERVE)",
                             operation.tag, operation.flags)};
  }
  const bool sums = operation.kind == TALLY_ALL_REDUCE || operation.kind == TALLY_REDUCE;
  if ((operation.flags & TALLY_WANT_STATS) == 0 || sums) return Unit{};
  return Error{Status::kUnsupported,
               fmt::format("tag {}: kind {} with TALLY_WANT_STATS: statistics are made of "
                           "TALLY_ALL_REDUCE and TALLY_REDUCE alone; leave the flag out",
                           operation.tag, static_cast<int>(operation.kind))};
}

}  // namespace

Outcome check(const Session& session, const tally_operation& operation) {
  const auto refuse = [&](const char* field, std::uint64_t value, const std::string& allowed) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {}: {} {}: {}", operation.tag, field, value, allowed)};
  };
  if (auto fine = check_enumerators(operation); !fine) return fine;
  if (operation.priority > 255) return refuse("priority", operation.priority, "must be 0 to 255");
  const bool rooted = operation.kind == TALLY_REDUCE || operation.kind == TALLY_BROADCAST;
  const std::uint32_t last = session.book_config().ranks - 1U;
  if (rooted && operation.root > last) {
    return refuse("root", operation.root, fmt::format("must be a rank of the job, 0 to {}", last));
  }
  if (operation.kind == TALLY_BARRIER && operation.count != 0) {
    return refuse("count", operation.count, "must be 0, because a barrier has no buffers");
  }
  const std::uint64_t most =
      wire::kMaxBytes / element_bytes(static_cast<ElementType>(operation.type));
  if (operation.count > most) {
    return refuse("count", operation.count, fmt::format("at most {} of this type", most));
  }
  if (auto fine = check_flags(operation); !fine) return fine;
  return check_regions(session, operation);
}

Post translate(const tally_operation& from) {
  Post to;
  to.notice.kind = static_cast<wire::Kind>(from.kind);
  to.notice.type = static_cast<ElementType>(from.type);
  to.notice.operation = static_cast<Operation>(from.op);
  to.notice.tag = from.tag;
  to.notice.count = from.count;
  to.notice.in_offset = from.in.offset;
  to.notice.out_offset = from.out.offset;
  const bool rooted = from.kind == TALLY_REDUCE || from.kind == TALLY_BROADCAST;
  to.notice.root = rooted ? static_cast<std::uint16_t>(from.root) : std::uint16_t{0};
  to.notice.priority = static_cast<std::uint8_t>(from.priority);
  to.notice.deadline_ms = from.deadline_ms;
  to.in = region_of(from.in.region);
  to.out = region_of(from.out.region);
  to.stats = (from.flags & TALLY_WANT_STATS) != 0;
  to.preserve = (from.flags & TALLY_PRESERVE) != 0;
  to.user = from.user;
  return to;
}

void translate(const Completed& from, tally_completion* to) {
  tally_completion full{};
  full.status = code(from.status);
  full.tag = from.tag;
  full.round = from.round;
  full.user = from.user;
  full.culprit = from.culprit == wire::kNoRank ? TALLY_NO_RANK : from.culprit;
  full.inputs_gone = from.inputs_gone ? 1 : 0;
  full.sum_of_squares = from.stats.sum_of_squares;
  full.nonfinite = from.stats.nonfinite;
  full.contributors = from.contributors;
  // The set's own text, so that a success needs no memory for it.
  const std::string& message = from.left_out ? from.left_out->text : from.message;
  const std::size_t length = std::min(message.size(), sizeof full.message - 1);
  std::memcpy(full.message, message.data(), length);
  write_struct(full, to);
}

}  // namespace tally::client
