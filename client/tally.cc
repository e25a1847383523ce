// The C ABI over Session: structs in and out, versions by size, errors kept for tally_last_error.
// No exception leaves this file.
#include "tally/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "base/debug_steps.h"
#include "client/address.h"
#include "client/fork_guard.h"
#include "client/make_region.h"
#include "client/session.h"

using tally::Error;
using tally::Nanos;
using tally::Outcome;
using tally::Status;
using tally::client::Completed;
using tally::client::Region;
using tally::client::Session;

struct tally_session {  // NOLINT(readability-identifier-naming): the name of the C ABI
  std::unique_ptr<Session> session;
  std::string last_error;
  tally::client::ForkGuard fork = {};
};

namespace {

static_assert(TALLY_DAMAGED == static_cast<int>(Status::kDamaged));
static_assert(TALLY_NODE_LOST == static_cast<int>(Status::kNodeLost));
static_assert(TALLY_I64 == static_cast<int>(tally::ElementType::kI64));
static_assert(TALLY_MAX == static_cast<int>(tally::Operation::kMax));
static_assert(TALLY_BARRIER == static_cast<int>(tally::wire::Kind::kBarrier));

thread_local std::string open_error;  // of the thread's last tally_open

tally_status code(Status status) {
  return static_cast<tally_status>(status);
}
Region* region_of(tally_region* region) {
  return reinterpret_cast<Region*>(region);
}

tally_status failed(tally_session* session, Error error) {
  session->last_error = std::move(error.message);
  return code(error.status);
}

tally_status answer(tally_session* session, Outcome outcome) {
  return outcome ? TALLY_OK : failed(session, outcome.error());
}

// The rings and sockets of a session are its process's: a child that used them would speak in its
// parent's name.
Error inherited() {
  return Error{Status::kInvalidArgument,
               "the session belongs to the process that forked this one: open one of your own, "
               "as a rank of your own"};
}

// Runs `body`, which returns a tally_status; what it throws becomes one.
template <typename Body>
tally_status guarded(tally_session* session, Body body) {
  if (session == nullptr) return TALLY_INVALID_ARGUMENT;
  try {
    if (session->fork.in_child()) return failed(session, inherited());
    return body();
  } catch (const std::bad_alloc&) {
    return failed(session, Error{Status::kNoMemory, "out of memory"});
  } catch (const std::exception& error) {
    return failed(session, Error{Status::kInternal, error.what()});
  }
}

// Structs only grow. An older caller's is zero-filled; a newer caller's must be zero in what this
// library does not know. False otherwise.
template <typename Struct>
bool read_struct(const Struct* from, Struct& to) {
  if (from == nullptr || from->size < sizeof(std::size_t)) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  to = Struct{};
  std::memcpy(&to, bytes, std::min(from->size, sizeof(Struct)));
  for (std::size_t i = sizeof(Struct); i < from->size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

template <typename Struct>
void write_struct(const Struct& from, Struct* to) {
  const std::size_t size = to->size;
  std::memcpy(to, &from, std::min(size, sizeof(Struct)));
  to->size = size;
}

Error bad_struct(const char* name) {
  return Error{
      Status::kInvalidArgument,
      fmt::format("{}: set size to sizeof({}) and zero the fields that are not used", name, name)};
}

tally::client::SessionOptions translate(const tally_session_options& from) {
  tally::client::SessionOptions to;
  to.address = from.address != nullptr ? from.address : tally::client::default_connect_address();
  to.job = from.job != nullptr ? from.job : "default";
  to.token = from.token != nullptr ? from.token : "";
  to.transport = from.transport != nullptr ? from.transport : tally::client::default_transport();
  to.domain = from.ibv_pd;
  to.rank = static_cast<std::uint16_t>(from.rank);
  to.ranks = static_cast<std::uint16_t>(from.ranks);
  if (from.connect_timeout_ms != 0)
    to.connect_timeout = from.connect_timeout_ms * tally::kMillisecond;
  to.deadline_ms = from.default_deadline_ms;
  if (from.checksums != 0) to.checksums = from.checksums == TALLY_CHECKSUMS_ON;
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
  if (options.ranks < 1 || options.ranks > tally::wire::kMaxRanks) {
    return Error{Status::kInvalidArgument,
                 fmt::format("ranks {}: 1 to {}", options.ranks, tally::wire::kMaxRanks)};
  }
  if (options.rank >= options.ranks) {
    return Error{Status::kInvalidArgument, fmt::format("rank {} of {} ranks: 0 to {}", options.rank,
                                                       options.ranks, options.ranks - 1)};
  }
  if (static_cast<std::uint32_t>(options.checksums) > TALLY_CHECKSUMS_OFF) {
    return Error{Status::kInvalidArgument, "checksums: a tally_checksums, 0 to 2"};
  }
  return tally::Unit{};
}

Outcome check(const Session& session, const tally_operation& operation) {
  const auto refuse = [&](const char* field, std::uint64_t value, const char* allowed) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {}: {} {}: {}", operation.tag, field, value, allowed)};
  };
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  if (operation.kind < TALLY_ALL_REDUCE || operation.kind > TALLY_BARRIER) {
    return refuse("kind", number(operation.kind), "1 to 6");
  }
  if (number(operation.type) > TALLY_I64) return refuse("type", number(operation.type), "0 to 7");
  if (number(operation.op) > TALLY_MAX) return refuse("op", number(operation.op), "0 to 3");
  if (operation.priority > 255) return refuse("priority", operation.priority, "0 to 255");
  const bool rooted = operation.kind == TALLY_REDUCE || operation.kind == TALLY_BROADCAST;
  if (rooted && operation.root >= session.book_config().ranks) {
    return refuse("root", operation.root, "must be a rank of the job");
  }
  if (operation.kind == TALLY_BARRIER && operation.count != 0) {
    return refuse("count", operation.count, "a barrier has none");
  }
  const auto type = static_cast<tally::ElementType>(operation.type);
  if (operation.count > tally::wire::kMaxBytes / tally::element_bytes(type)) {
    return refuse("count", operation.count, "more than 2^47 bytes");
  }
  const bool sums = operation.kind == TALLY_ALL_REDUCE || operation.kind == TALLY_REDUCE;
  if ((operation.flags & TALLY_WANT_STATS) != 0 && !sums) {
    return Error{
        Status::kUnsupported,
        fmt::format("tag {}: statistics are made of all-reduce and reduce", operation.tag)};
  }
  if ((operation.flags & ~TALLY_WANT_STATS) != 0) {
    return refuse("flags", operation.flags, "unknown ones are set");
  }
  if (operation.stream != nullptr) {
    return Error{Status::kUnsupported, "stream: this build has no GPU support; set it to NULL"};
  }
  for (const tally_region* region : {operation.in.region, operation.out.region}) {
    if (region != nullptr && !session.owns(reinterpret_cast<const Region*>(region))) {
      return Error{Status::kBadRegion,
                   fmt::format("tag {}: a region that this session does not have", operation.tag)};
    }
  }
  return tally::Unit{};
}

tally::client::Post translate(const tally_operation& from) {
  tally::client::Post to;
  to.notice.kind = static_cast<tally::wire::Kind>(from.kind);
  to.notice.type = static_cast<tally::ElementType>(from.type);
  to.notice.operation = static_cast<tally::Operation>(from.op);
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
  to.user = from.user;
  return to;
}

void translate(const Completed& from, tally_completion* to) {
  tally_completion full{};
  full.status = code(from.status);
  full.tag = from.tag;
  full.round = from.round;
  full.user = from.user;
  full.culprit = from.culprit == tally::wire::kNoRank ? TALLY_NO_RANK : from.culprit;
  full.inputs_gone = from.inputs_gone ? 1 : 0;
  full.sum_of_squares = from.stats.sum_of_squares;
  full.nonfinite = from.stats.nonfinite;
  const std::size_t length = std::min(from.message.size(), sizeof full.message - 1);
  std::memcpy(full.message, from.message.data(), length);
  write_struct(full, to);
}

tally_status take_into(tally_session* session, tally_completion* completion, const Outcome& outcome,
                       const Completed& completed) {
  if (!outcome) return failed(session, outcome.error());
  translate(completed, completion);
  return TALLY_OK;
}

bool usable(const tally_completion* completion) {
  return completion != nullptr && completion->size >= sizeof(std::size_t);
}

}  // namespace

extern "C" {

tally_status tally_open(const tally_session_options* options, tally_session** session) {
  if (session == nullptr) return TALLY_INVALID_ARGUMENT;
  *session = nullptr;
  const auto refuse = [](const Error& error) {
    open_error = error.message;
    return code(error.status);
  };
  tally_session_options read{};
  try {
    if (!read_struct(options, read)) return refuse(bad_struct("tally_session_options"));
    if (const auto fine = tally::start_debug_steps(); !fine) return refuse(fine.error());
    if (const auto fine = check(read); !fine) return refuse(fine.error());
    auto opened = Session::open(translate(read));
    if (!opened) return refuse(opened.error());
    *session = new tally_session{std::move(opened).value(), {}};
    return TALLY_OK;
  } catch (const std::exception& error) {
    return refuse(Error{Status::kInternal, error.what()});
  }
}

void tally_close(tally_session* session) {
  // What a child has inherited ends with the child; to take it apart would end the parent's.
  if (session != nullptr && session->fork.in_child()) return;
  delete session;
}

const char* tally_last_error(const tally_session* session) {
  return session != nullptr ? session->last_error.c_str() : open_error.c_str();
}

const char* tally_status_name(tally_status status) {
  // The names are literals: a view of one ends in a zero.
  return tally::status_name(static_cast<Status>(status)).data();
}

tally_status tally_get_info(const tally_session* session, tally_session_info* info) {
  if (session == nullptr || info == nullptr || info->size < sizeof(std::size_t)) {
    return TALLY_INVALID_ARGUMENT;
  }
  const auto& config = session->session->book_config();
  tally_session_info full{};
  full.rank = config.rank;
  full.ranks = config.ranks;
  full.shards = session->session->nodes().lanes();
  full.credit = config.credit;
  full.epoch = config.epoch;
  full.transport = session->session->transport();
  full.copied_bytes = session->session->copied_bytes();
  full.checksums = session->session->gives_checksums() ? 1 : 0;
  write_struct(full, info);
  return TALLY_OK;
}

tally_status tally_region_alloc(tally_session* session, size_t bytes, tally_region** region,
                                void** data) {
  return guarded(session, [&] {
    if (region == nullptr || data == nullptr || bytes == 0) {
      return failed(session, Error{Status::kInvalidArgument,
                                   "tally_region_alloc: bytes is 0, or region or data is NULL"});
    }
    auto made = Region::allocate(bytes);
    if (!made) return failed(session, made.error());
    auto added = session->session->add_region(std::move(made).value());
    if (!added) return failed(session, added.error());
    *region = reinterpret_cast<tally_region*>(*added);
    *data = (*added)->data();
    return TALLY_OK;
  });
}

tally_status tally_region_register(tally_session* session, const tally_memory* memory,
                                   tally_region** region) {
  return guarded(session, [&] {
    tally_memory read{};
    if (region == nullptr || !read_struct(memory, read)) {
      return failed(session, bad_struct("tally_memory"));
    }
    auto made = tally::client::make_region(
        session->session->memory_needs(), read,
        [&](const std::string& text) { session->session->log(0, text); });
    if (!made) return failed(session, made.error());
    auto added = session->session->add_region(std::move(made).value());
    if (!added) return failed(session, added.error());
    *region = reinterpret_cast<tally_region*>(*added);
    return TALLY_OK;
  });
}

tally_status tally_region_free(tally_session* session, tally_region* region) {
  return guarded(session, [&] {
    if (!session->session->owns(region_of(region))) {
      return failed(session,
                    Error{Status::kBadRegion, "tally_region_free: not a region of this session"});
    }
    return answer(session, session->session->remove_region(region_of(region)));
  });
}

tally_status tally_post(tally_session* session, const tally_operation* operation) {
  return guarded(session, [&] {
    tally_operation read{};
    if (!read_struct(operation, read)) return failed(session, bad_struct("tally_operation"));
    if (const auto fine = check(*session->session, read); !fine) {
      return failed(session, fine.error());
    }
    const auto posted = session->session->post(translate(read));
    return posted ? TALLY_OK : failed(session, posted.error());
  });
}

int tally_poll(tally_session* session, tally_completion* completions, int max) {
  if (max <= 0 || !usable(completions)) return 0;
  const std::size_t stride = completions->size;
  int count = 0;
  guarded(session, [&] {
    Completed completed;
    auto* at = reinterpret_cast<unsigned char*>(completions);
    while (count < max && session->session->poll(completed)) {
      auto* to = reinterpret_cast<tally_completion*>(at + static_cast<std::size_t>(count) * stride);
      std::memcpy(to, &stride, sizeof stride);
      translate(completed, to);
      ++count;
    }
    return TALLY_OK;
  });
  return count;
}

tally_status tally_wait(tally_session* session, tally_completion* completion, int timeout_ms) {
  return guarded(session, [&] {
    if (!usable(completion)) return failed(session, bad_struct("tally_completion"));
    const Nanos until = timeout_ms < 0 ? tally::kForever
                                       : tally::monotonic_now() + timeout_ms * tally::kMillisecond;
    Completed completed;
    const Outcome outcome = session->session->wait(completed, until);
    return take_into(session, completion, outcome, completed);
  });
}

tally_status tally_cancel(tally_session* session, uint32_t tag) {
  return guarded(session, [&] { return answer(session, session->session->cancel(tag)); });
}

int tally_fd(tally_session* session) {
  return session != nullptr && !session->fork.in_child() ? session->session->fd() : -1;
}

tally_status tally_arm(tally_session* session) {
  return guarded(session, [&] { return session->session->arm() ? TALLY_OK : TALLY_AGAIN; });
}

tally_status tally_run(tally_session* session, const tally_operation* operation,
                       tally_completion* completion) {
  return guarded(session, [&] {
    if (!usable(completion)) return failed(session, bad_struct("tally_completion"));
    tally_operation read{};
    if (!read_struct(operation, read)) return failed(session, bad_struct("tally_operation"));
    if (const auto fine = check(*session->session, read); !fine) {
      return failed(session, fine.error());
    }
    const auto round = session->session->post(translate(read));
    if (!round) return failed(session, round.error());
    Completed completed;
    const Outcome outcome = session->session->wait_for(read.tag, *round, completed);
    return take_into(session, completion, outcome, completed);
  });
}

}  // extern "C"
