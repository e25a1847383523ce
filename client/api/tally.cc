// The C ABI over Session. It translates structs, checks their versions by their sizes, and keeps
// errors for tally_last_error. No exception leaves this file.
#include "tally/tally.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "base/debug_steps.h"
#include "client/api/abi_arguments.h"
#include "client/api/abi_structs.h"
#include "client/api/call_guard.h"
#include "client/api/fork_guard.h"
#include "client/device/rank.h"
#include "client/session/make_region.h"

using tally::Error;
using tally::Nanos;
using tally::Outcome;
using tally::Result;
using tally::Status;
using tally::client::check;
using tally::client::check_struct;
using tally::client::code;
using tally::client::Completed;
using tally::client::Rank;
using tally::client::read_struct;
using tally::client::Region;
using tally::client::region_of;
using tally::client::Session;
using tally::client::translate;

struct tally_session {  // NOLINT(readability-identifier-naming): the name of the C ABI
  std::unique_ptr<Rank> rank;
  // Empty when the last call succeeded. Only the thread whose call is under way reads and writes
  // it.
  std::string last_error;
  tally::client::ForkGuard fork = {};
  tally::client::CallGuard calls = {};
  // True when a call was refused. The refused thread keeps the message in its own `misuse`.
  std::atomic<bool> misused{false};
};

namespace {

thread_local std::string open_error;  // of the thread's last call without a session

// The message of a call that was refused, because another call was under way or because the session
// belongs to the parent process. Each thread has its own, because another thread may be using the
// members of the session.
struct Misuse {
  const tally_session* session = nullptr;
  std::string message;
};
thread_local Misuse misuse;

tally_status failed(tally_session* session, Error error) {
  session->last_error = std::move(error.message);
  return code(error.status);
}

tally_status answer(tally_session* session, Outcome outcome) {
  return outcome ? TALLY_OK : failed(session, outcome.error());
}

tally_status without_session(const char* call) try {
  open_error = fmt::format("{}: session is NULL: tally_open gives one", call);
  return TALLY_INVALID_ARGUMENT;
} catch (const std::bad_alloc&) {
  return TALLY_INVALID_ARGUMENT;
}

tally_status refuse_call(tally_session* session, const std::string& message) {
  misuse.message = message;
  misuse.session = session;
  session->misused.store(true, std::memory_order_relaxed);
  return TALLY_INVALID_ARGUMENT;
}

// The rings and sockets of a session belong to its process. A child that used them would send
// messages as its parent.
std::string inherited(const char* call) {
  return fmt::format(
      "{}: the session belongs to the process that forked this one: open one of "
      "your own, as a rank of your own",
      call);
}

std::string concurrent_call_message(const char* call, const char* other) {
  return fmt::format(
      "{}: {} is under way on this session, on another thread or around its log "
      "function: a session is used by one thread at a time; give each thread a "
      "session, or hold a lock during each call",
      call, other);
}

// Registers a call on a session from its start to its return. other(): the name of a call that was
// under way at its start; null: none.
class Turn {
 public:
  Turn(tally_session* session, const char* call)
      : session_(session), other_(session->calls.begin(call)) {}
  ~Turn() {
    if (other_ == nullptr) session_->calls.end();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  const char* other() const { return other_; }

 private:
  tally_session* session_;
  const char* other_;
};

// tally_last_error() reports the last call only.
void forget_earlier_refusal(tally_session* session) {
  session->last_error.clear();
  const bool misused = session->misused.load(std::memory_order_relaxed);
  if (misused && misuse.session == session) misuse.session = nullptr;
}

// Runs `body`, which returns a tally_status, with the lock of the rank, which it may take as an
// argument. An exception becomes a status.
template <typename Body>
tally_status in_turn(tally_session* session, Body body) {
  try {
    forget_earlier_refusal(session);
    auto lock = session->rank->lock();
    if constexpr (std::is_invocable_v<Body, Rank::Lock&>) {
      return body(lock);
    } else {
      return body();
    }
  } catch (const std::bad_alloc&) {
    return failed(session, Error{Status::kNoMemory, "out of memory"});
  } catch (const std::exception& error) {
    return failed(session, Error{Status::kInternal, error.what()});
  }
}

// The same for a call on a session. Refuses the call when the session is null, when the process
// inherited it by fork, and when another call is under way on it.
template <typename Body>
tally_status guarded(tally_session* session, const char* call, Body body) try {
  if (session == nullptr) return without_session(call);
  if (session->fork.in_child()) return refuse_call(session, inherited(call));
  const Turn turn(session, call);
  if (turn.other() != nullptr)
    return refuse_call(session, concurrent_call_message(call, turn.other()));
  return in_turn(session, body);
} catch (const std::bad_alloc&) {
  return TALLY_INVALID_ARGUMENT;  // without a message
}

Error is_null(const char* call, const char* argument) {
  return Error{Status::kInvalidArgument,
               fmt::format("{}: {} is NULL: give the address of a variable", call, argument)};
}

tally_status take_into(tally_session* session, tally_completion* completion, const Outcome& outcome,
                       const Completed& completed) {
  if (!outcome) return failed(session, outcome.error());
  translate(completed, completion);
  return TALLY_OK;
}

tally::client::RegionMaking making(Session& session) {
  return {[&session](const std::string& text) { session.log(0, text); },
          [&session](std::uint64_t bytes) { return session.room_for(bytes); }};
}

Result<Region*> register_region(Rank& rank, const tally_memory& memory, Rank::Lock& lock) {
  Session& session = rank.session();
  // Waits for a repair, because the nodes after it may need other memory.
  if (auto may = session.room_for(0); !may) return may.error();
  auto made = tally::client::make_region(session.memory_needs(), memory, making(session));
  if (!made) return made.error();
  if (*made != nullptr) return session.add_region(std::move(made).value());
  return rank.add_cuda_region(tally::client::address_of(memory.data), memory.bytes, lock);
}

tally::cuda::Stream stream_of(const tally_operation& operation) {
  return static_cast<tally::cuda::Stream>(operation.stream);
}

}  // namespace

extern "C" {

tally_status tally_open(const tally_session_options* options, tally_session** session) {
  const auto refuse = [](const Error& error) {
    open_error = error.message;
    return code(error.status);
  };
  try {
    open_error.clear();
    if (session == nullptr) return refuse(is_null("tally_open", "session"));
    *session = nullptr;
    tally_session_options read{};
    if (const auto fine = tally::client::read_options(options, read); !fine)
      return refuse(fine.error());
    if (const auto fine = tally::start_debug_steps(); !fine) return refuse(fine.error());
    if (const auto fine = check(read); !fine) return refuse(fine.error());
    auto opened = Session::open(translate(read));
    if (!opened) return refuse(opened.error());
    auto rank = std::make_unique<Rank>(std::move(opened).value());
    *session = new tally_session{.rank = std::move(rank), .last_error = {}};
    return TALLY_OK;
  } catch (const std::exception& error) {
    return refuse(Error{Status::kInternal, error.what()});
  }
}

void tally_close(tally_session* session) {
  // What a child has inherited ends with the child. To close it here would end the parent's
  // session.
  if (session == nullptr || session->fork.in_child()) return;
  const char* const other = session->calls.begin("tally_close");
  if (other == nullptr) {
    delete session;
    return;
  }
  try {
    session->rank->session().log(
        1, concurrent_call_message("tally_close", other) + "; the session stays open");
  } catch (const std::exception&) {
    return;
  }
}

const char* tally_last_error(const tally_session* constant) {
  if (constant == nullptr) return open_error.c_str();
  if (constant->misused.load(std::memory_order_relaxed) && misuse.session == constant) {
    return misuse.message.c_str();
  }
  auto* session = const_cast<tally_session*>(constant);
  const Turn turn(session, "tally_last_error");
  if (turn.other() == nullptr) return session->last_error.c_str();
  return "another call on the session is under way, on another thread or around its log function";
}

const char* tally_status_name(tally_status status) {
  // The names are string literals, so the data of a view ends in a zero.
  return tally::status_name(static_cast<Status>(status)).data();
}

tally_status tally_get_info(const tally_session* constant, tally_session_info* info) {
  auto* session = const_cast<tally_session*>(constant);
  return guarded(session, "tally_get_info", [&] {
    if (auto fine = check_struct(info); !fine) return failed(session, fine.error());
    const Session& opened = session->rank->session();
    const auto& config = opened.book_config();
    tally_session_info full{};
    full.rank = config.rank;
    full.ranks = config.ranks;
    full.shards = opened.nodes().shards();
    full.credit = config.credit;
    full.epoch = config.epoch;
    full.transport = session->rank->session().transport();
    full.copied_bytes = session->rank->copied_bytes();
    full.checksums = opened.gives_checksums() ? 1 : 0;
    full.left_out = static_cast<std::uint32_t>(config.left_out.size());
    tally::client::write_struct(full, info);
    return TALLY_OK;
  });
}

tally_status tally_region_alloc(tally_session* session, size_t bytes, tally_region** region,
                                void** data) {
  return guarded(session, "tally_region_alloc", [&] {
    if (region == nullptr) return failed(session, is_null("tally_region_alloc", "region"));
    if (data == nullptr) return failed(session, is_null("tally_region_alloc", "data"));
    Session& opened = session->rank->session();
    auto made = tally::client::allocate_region(bytes, making(opened));
    if (!made) return failed(session, made.error());
    auto added = opened.add_region(std::move(made).value());
    if (!added) return failed(session, added.error());
    *region = reinterpret_cast<tally_region*>(*added);
    *data = (*added)->data();
    return TALLY_OK;
  });
}

tally_status tally_region_register(tally_session* session, const tally_memory* memory,
                                   tally_region** region) {
  return guarded(session, "tally_region_register", [&](Rank::Lock& lock) {
    tally_memory read{};
    if (region == nullptr) return failed(session, is_null("tally_region_register", "region"));
    if (auto fine = read_struct(memory, read); !fine) return failed(session, fine.error());
    auto added = register_region(*session->rank, read, lock);
    if (!added) return failed(session, added.error());
    *region = reinterpret_cast<tally_region*>(*added);
    return TALLY_OK;
  });
}

tally_status tally_region_free(tally_session* session, tally_region* region) {
  return guarded(session, "tally_region_free", [&](Rank::Lock& lock) {
    if (!session->rank->session().owns(region_of(region))) {
      return failed(session, Error{Status::kBadRegion,
                                   fmt::format("tally_region_free: {} is not a region of this "
                                               "session: was it freed before?",
                                               static_cast<void*>(region))});
    }
    return answer(session, session->rank->remove_region(lock, region_of(region)));
  });
}

tally_status tally_post(tally_session* session, const tally_operation* operation) {
  return guarded(session, "tally_post", [&](Rank::Lock& lock) {
    tally_operation read{};
    if (auto fine = read_struct(operation, read); !fine) return failed(session, fine.error());
    if (auto fine = check(session->rank->session(), read); !fine) {
      return failed(session, fine.error());
    }
    return answer(session, session->rank->post(lock, translate(read), stream_of(read)));
  });
}

int tally_poll(tally_session* session, tally_completion* completions, int max) {
  int count = 0;
  const tally_status status = guarded(session, "tally_poll", [&] {
    if (max < 0) {
      return failed(session, Error{Status::kInvalidArgument,
                                   fmt::format("tally_poll: max {}: must be the number of entries "
                                               "of completions",
                                               max)});
    }
    if (auto fine = check_struct(completions); !fine) return failed(session, fine.error());
    const std::size_t stride = completions->size;
    Completed completed;
    auto* at = reinterpret_cast<unsigned char*>(completions);
    while (count < max && session->rank->poll(completed)) {
      auto* to = reinterpret_cast<tally_completion*>(at + static_cast<std::size_t>(count) * stride);
      std::memcpy(to, &stride, sizeof stride);
      translate(completed, to);
      ++count;
    }
    return TALLY_OK;
  });
  return status == TALLY_OK || count > 0 ? count : -static_cast<int>(status);
}

tally_status tally_wait(tally_session* session, tally_completion* completion, int timeout_ms) {
  return guarded(session, "tally_wait", [&](Rank::Lock& lock) {
    if (auto fine = check_struct(completion); !fine) return failed(session, fine.error());
    const Nanos until = timeout_ms < 0 ? tally::kForever
                                       : tally::monotonic_now() + timeout_ms * tally::kMillisecond;
    Completed completed;
    const Outcome outcome = session->rank->wait(lock, completed, until);
    return take_into(session, completion, outcome, completed);
  });
}

tally_status tally_cancel(tally_session* session, uint32_t tag) {
  return guarded(session, "tally_cancel",
                 [&] { return answer(session, session->rank->cancel(tag)); });
}

int tally_fd(tally_session* session) {
  if (session == nullptr) {
    without_session("tally_fd");
    return -1;
  }
  if (!session->fork.in_child()) return session->rank->fd();
  guarded(session, "tally_fd", [] { return TALLY_OK; });  // sets the message
  return -1;
}

tally_status tally_arm(tally_session* session) {
  return guarded(session, "tally_arm", [&] {
    if (session->rank->arm()) return TALLY_OK;
    const auto& held_back = session->rank->session().held_back();
    return held_back ? failed(session, *held_back) : TALLY_AGAIN;
  });
}

tally_status tally_run(tally_session* session, const tally_operation* operation,
                       tally_completion* completion) {
  return guarded(session, "tally_run", [&](Rank::Lock& lock) {
    if (auto fine = check_struct(completion); !fine) return failed(session, fine.error());
    tally_operation read{};
    if (auto fine = read_struct(operation, read); !fine) return failed(session, fine.error());
    if (auto fine = check(session->rank->session(), read); !fine) {
      return failed(session, fine.error());
    }
    Completed completed;
    const Outcome outcome = session->rank->run(lock, translate(read), stream_of(read), completed);
    return take_into(session, completion, outcome, completed);
  });
}

}  // extern "C"
