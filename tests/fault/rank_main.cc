// A rank that does what it is told, one command per line of its input, and says how it ended. Its
// standard error has the session's log.
//   sum TAG COUNT [out|preserve|average]   posts an all-reduce of f32, in place or out of place;
//                         preserve: in place, with TALLY_PRESERVE; average: TALLY_AVERAGE, out of
//                         place
//   announce TAG COUNT KIND TYPE OP ROOT   the same of any kind, by the numbers of tally.h
//   wait                  takes a completion: "TAG STATUS CULPRIT GONE | message", and verifies;
//                         "TAG ok wrong W contributors N without rank R" where ranks are left out
//   loop TAG COUNT N [out|preserve|average]   N rounds of sum and wait: "looped N wrong W" or the
//                         first failure. Before that "contributors N from round R without rank M",
//                         at each change of the ranks that are left out
//   until TAG COUNT ROUND [out|preserve|average]   as loop, up to that round of the tag: "until
//                         ROUND from FIRST wrong W"
//   with RANKS TAG COUNT N [out|preserve|average]   as loop, until N rounds have had RANKS
//                         contributors: "with RANKS to round R wrong W"
//   left-out              how many ranks are left out of the version in use: "left out N"
//   timed TAG COUNT N SLOW_US [out|preserve]   as loop: "slow BEGIN LASTS" for each round that
//                         lasts SLOW_US or more; "timed N wrong W longest LASTS at BEGIN repairs
//                         N"; in microseconds, begins on CLOCK_MONOTONIC
//   worst                 the longest round of the last loop: "worst MS repairs N"
//   open                  a new session in the place of the old one
//   close, free, region   the session, the region; another region, of a page
//   inputs                does the input of the last sum still stand there? "inputs wrong N"
//   mark, marks           writes all of the region; verifies that nobody else has: "marks wrong N"
//   deadline MS           of what is posted from now on
//   transport             which one the session has
//   fork                  a child tries every call on the session, and ends
//   fork-live             a child that holds all it has inherited until it is killed: "child PID"
//   exit, abort, exec     ends without closing the session; exec: as a sleep of 60 s
#include <sys/wait.h>
#include <tally/tally.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace {

using std::chrono::steady_clock;

struct State {
  tally_session_options options{};
  std::size_t max = 1 << 24;  // elements
  tally_session* session = nullptr;
  tally_region* region = nullptr;
  float* data = nullptr;
  std::uint32_t deadline_ms = 0;
  std::uint64_t count = 0;
  bool out_of_place = false;
  bool is_average = false;
  steady_clock::duration worst{};
  steady_clock::time_point worst_begin;
  std::uint32_t round = 0;  // of the last completion of run_rounds()
  std::string left_out;     // the message of that completion: which ranks its result lacks
  int repairs = 0;          // of this process's sessions
};

void print(const std::string& text) {
  std::cout << text << std::endl;
}

bool open(State& state) {
  tally_close(state.session);
  state.session = nullptr;
  if (tally_open(&state.options, &state.session) != TALLY_OK) {
    print(std::string("refused ") + tally_last_error(nullptr));
    return false;
  }
  void* data = nullptr;
  if (tally_region_alloc(state.session, 2 * state.max * sizeof(float), &state.region, &data) !=
      TALLY_OK) {
    print(std::string("refused ") + tally_last_error(state.session));
    return false;
  }
  state.data = static_cast<float*>(data);
  print("ready");
  return true;
}

float value(std::uint32_t rank, std::uint64_t i) {
  return static_cast<float>(i % 1021) + static_cast<float>(rank);
}

bool announce(State& state, const tally_operation& operation) {
  if (tally_post(state.session, &operation) == TALLY_OK) return true;
  print(std::string("refused ") + tally_last_error(state.session));
  return false;
}

bool post(State& state, std::uint32_t tag, std::uint64_t count, const std::string& where) {
  if (state.session == nullptr || count > state.max) {
    print("refused: no session, or more than its memory");
    return false;
  }
  state.count = count;
  state.is_average = where == "average";
  state.out_of_place = where == "out" || state.is_average;
  for (std::uint64_t i = 0; i < count; ++i) state.data[i] = value(state.options.rank, i);
  tally_operation op{};
  op.size = sizeof op;
  op.kind = TALLY_ALL_REDUCE;
  op.op = state.is_average ? TALLY_AVERAGE : TALLY_SUM;
  op.tag = tag;
  op.count = count;
  op.in = {state.region, 0};
  op.out = {state.region, state.out_of_place ? state.max * sizeof(float) : 0};
  op.flags = where == "preserve" ? TALLY_PRESERVE : 0;
  op.deadline_ms = state.deadline_ms;
  return announce(state, op);
}

void announce_any(State& state, std::istringstream& words) {
  int kind = 0, type = 0, reduction = 0;
  tally_operation op{};
  op.size = sizeof op;
  words >> op.tag >> op.count >> kind >> type >> reduction >> op.root;
  op.kind = static_cast<tally_kind>(kind);
  op.type = static_cast<tally_type>(type);
  op.op = static_cast<tally_op>(reduction);
  op.in = {state.region, 0};
  op.out = {state.region, state.max * sizeof(float)};
  op.deadline_ms = state.deadline_ms;
  if (announce(state, op)) print("posted");
}

// The sum of the numbers of the ranks that have contributed: what element 0 of a sum is. The
// message names the ranks that are left out, but for "and N more". Nothing: it does not name all.
std::optional<float> sum_of_ranks(const State& state, const tally_completion& completion) {
  std::uint32_t sum = 0;
  for (std::uint32_t rank = 0; rank < state.options.ranks; ++rank) sum += rank;
  const std::string text = completion.message;
  if (text.ends_with(" more")) return std::nullopt;
  constexpr const char* kDigits = "0123456789";
  for (std::size_t at = text.find_first_of(kDigits); at != std::string::npos;
       at = text.find_first_of(kDigits, text.find_first_not_of(kDigits, at))) {
    sum -= static_cast<std::uint32_t>(std::stoul(text.substr(at)));
  }
  return static_cast<float>(sum);
}

std::uint64_t wrong(const State& state, const tally_completion& completion) {
  const float* result = state.data + (state.out_of_place ? state.max : 0);
  const auto ranks = static_cast<float>(completion.contributors);
  const float scale = state.is_average ? ranks : 1;
  const float base = sum_of_ranks(state, completion).value_or(result[0] * scale);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < state.count; ++i) {
    const float expected = ranks * static_cast<float>(i % 1021) + base;
    // The sum is exact.
    const float off = std::abs(result[i] * scale - expected);
    wrong += !(state.is_average ? off <= expected * 1e-6F : off == 0) ? 1 : 0;
  }
  return wrong;
}

bool wait(State& state, tally_completion& completion) {
  completion = tally_completion{};
  completion.size = sizeof completion;
  if (tally_wait(state.session, &completion, 60'000) == TALLY_OK) return true;
  print(std::string("no completion: ") + tally_last_error(state.session));
  return false;
}

void report(const State& state, const tally_completion& completion) {
  std::ostringstream text;
  text << completion.tag << ' ' << tally_status_name(completion.status) << ' ';
  if (completion.status == TALLY_OK) {
    text << "wrong " << wrong(state, completion);
    if (completion.contributors < state.options.ranks) {
      text << " contributors " << completion.contributors << ' ' << completion.message;
    }
  } else {
    text << static_cast<std::int32_t>(completion.culprit) << ' ' << completion.inputs_gone << " | "
         << completion.message;
  }
  print(text.str());
}

std::uint64_t wrong_inputs(const State& state) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < state.count; ++i) {
    wrong += state.data[i] != value(state.options.rank, i);
  }
  return wrong;
}

std::uint64_t wrong_marks(const State& state) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < 2 * state.max; ++i) wrong += state.data[i] != value(77, i);
  return wrong;
}

std::string microseconds(steady_clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

struct Rounds {
  std::uint32_t tag = 0;
  std::uint64_t count = 0;
  int number = 0;
  std::string where;
  steady_clock::duration slow = steady_clock::duration::max();  // shorter rounds are not printed
  std::uint32_t contributors = 0;  // rounds with another number of them do not count; 0: all count
};

std::istream& operator>>(std::istream& words, Rounds& rounds) {
  return words >> rounds.tag >> rounds.count >> rounds.number;
}

// Returns how many elements were wrong; nothing when a round failed, which it has then reported.
std::optional<std::uint64_t> run_rounds(State& state, const Rounds& rounds) {
  std::uint64_t bad = 0;
  state.worst = {};
  for (int round = 0; round < rounds.number;) {
    tally_completion completion;
    const auto begin = steady_clock::now();
    if (!post(state, rounds.tag, rounds.count, rounds.where) || !wait(state, completion)) {
      return std::nullopt;
    }
    const auto took = steady_clock::now() - begin;
    if (took > state.worst) {
      state.worst = took;
      state.worst_begin = begin;
    }
    if (took >= rounds.slow) {
      print("slow " + microseconds(begin.time_since_epoch()) + " " + microseconds(took));
    }
    if (completion.status != TALLY_OK) {
      report(state, completion);
      return std::nullopt;
    }
    bad += wrong(state, completion);
    state.round = completion.round;
    if (std::exchange(state.left_out, completion.message) != completion.message) {
      print("contributors " + std::to_string(completion.contributors) + " from round " +
            std::to_string(state.round) + ' ' + completion.message);
    }
    round += rounds.contributors == 0 || rounds.contributors == completion.contributors;
  }
  return bad;
}

void loop(State& state, std::istringstream& words) {
  Rounds rounds;
  words >> rounds >> rounds.where;
  const auto bad = run_rounds(state, rounds);
  if (bad) print("looped " + std::to_string(rounds.number) + " wrong " + std::to_string(*bad));
}

// A rank that returns to its job does not know the round that comes next.
void until(State& state, std::istringstream& words) {
  Rounds rounds;
  words >> rounds >> rounds.where;
  const int last = std::exchange(rounds.number, 1);
  const auto first_bad = run_rounds(state, rounds);
  if (!first_bad) return;
  const auto first = static_cast<int>(state.round);
  rounds.number = last - first;
  const auto bad = run_rounds(state, rounds);
  if (!bad) return;
  print("until " + std::to_string(last) + " from " + std::to_string(first) + " wrong " +
        std::to_string(*first_bad + *bad));
}

// A test cannot know how many rounds pass until a rank is lost, or until another one is there.
void loop_with(State& state, std::istringstream& words) {
  Rounds rounds;
  words >> rounds.contributors >> rounds >> rounds.where;
  const auto bad = run_rounds(state, rounds);
  if (!bad) return;
  print("with " + std::to_string(rounds.contributors) + " to round " + std::to_string(state.round) +
        " wrong " + std::to_string(*bad));
}

void timed(State& state, std::istringstream& words) {
  Rounds rounds;
  int slow_us = 0;
  words >> rounds >> slow_us >> rounds.where;
  rounds.slow = std::chrono::microseconds(slow_us);
  const auto bad = run_rounds(state, rounds);
  if (!bad) return;
  print("timed " + std::to_string(rounds.number) + " wrong " + std::to_string(*bad) + " longest " +
        microseconds(state.worst) + " at " + microseconds(state.worst_begin.time_since_epoch()) +
        " repairs " + std::to_string(state.repairs));
}

// The child of a fork: each call must be refused, and none reach the parent's session.
void try_everything(State& state) {
  tally_completion completion{};
  completion.size = sizeof completion;
  tally_operation op{};
  op.size = sizeof op;
  op.kind = TALLY_BARRIER;
  op.tag = 99;
  tally_region* region = nullptr;
  void* data = nullptr;
  const tally_status answers[] = {
      tally_post(state.session, &op),
      tally_wait(state.session, &completion, 100),
      tally_run(state.session, &op, &completion),
      tally_cancel(state.session, 17),
      tally_arm(state.session),
      tally_region_alloc(state.session, 4096, &region, &data),
      tally_region_free(state.session, state.region),
  };
  for (const tally_status answer : answers) {
    if (answer != TALLY_INVALID_ARGUMENT) return print("child: one was not refused");
  }
  if (tally_poll(state.session, &completion, 1) != -TALLY_INVALID_ARGUMENT) {
    return print("child: polls");
  }
  if (tally_fd(state.session) != -1) return print("child: has a descriptor");
  print(std::string("child: ") + tally_last_error(state.session));
}

[[noreturn]] void live_on() {
  for (;;) ::pause();
}

void fork_child(State& state) {
  const pid_t child = ::fork();
  if (child == 0) {
    try_everything(state);
    tally_close(state.session);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

void obey(State& state, const std::string& line) {
  std::istringstream words(line);
  std::string command, where;
  std::uint32_t tag = 0;
  std::uint64_t count = 0;
  words >> command;
  if (command == "sum") {
    words >> tag >> count >> where;
    if (post(state, tag, count, where)) print("posted");
  } else if (command == "announce") {
    announce_any(state, words);
  } else if (command == "wait") {
    tally_completion completion;
    if (wait(state, completion)) report(state, completion);
  } else if (command == "loop") {
    loop(state, words);
  } else if (command == "timed") {
    timed(state, words);
  } else if (command == "worst") {
    const auto worst = std::chrono::duration_cast<std::chrono::milliseconds>(state.worst);
    print("worst " + std::to_string(worst.count()) + " repairs " + std::to_string(state.repairs));
  } else if (command == "open") {
    open(state);
  } else if (command == "close") {
    tally_close(state.session);
    state.session = nullptr;
    print("closed");
  } else if (command == "free") {
    const bool freed = tally_region_free(state.session, state.region) == TALLY_OK;
    print(freed ? "freed" : std::string("not freed: ") + tally_last_error(state.session));
  } else if (command == "region") {
    tally_region* region = nullptr;
    void* data = nullptr;
    const bool got = tally_region_alloc(state.session, 4096, &region, &data) == TALLY_OK;
    print(got ? "region" : std::string("refused ") + tally_last_error(state.session));
  } else if (command == "inputs") {
    print("inputs wrong " + std::to_string(wrong_inputs(state)));
  } else if (command == "mark") {
    for (std::size_t i = 0; i < 2 * state.max; ++i) state.data[i] = value(77, i);
    print("marked");
  } else if (command == "marks") {
    print("marks wrong " + std::to_string(wrong_marks(state)));
  } else if (command == "deadline") {
    words >> state.deadline_ms;
    print("deadline");
  } else if (command == "transport") {
    tally_session_info info{};
    info.size = sizeof info;
    print(tally_get_info(state.session, &info) == TALLY_OK ? info.transport : "no session");
  } else if (command == "until") {
    until(state, words);
  } else if (command == "with") {
    loop_with(state, words);
  } else if (command == "left-out") {
    tally_session_info info{};
    info.size = sizeof info;
    tally_get_info(state.session, &info);
    print("left out " + std::to_string(info.left_out));
  } else if (command == "fork") {
    fork_child(state);
  } else if (command == "fork-live") {
    const pid_t child = ::fork();
    if (child == 0) live_on();
    print("child " + std::to_string(child));
  } else if (command == "exit") {
    std::exit(0);
  } else if (command == "abort") {
    std::abort();
  } else if (command == "exec") {
    ::execl("/bin/sleep", "sleep", "60", nullptr);
  } else {
    print("what is " + line + "?");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr,
                 "usage: fault-rank ADDRESS JOB RANK RANKS [ELEMENTS [CONNECT_MS [fail|finish "
                 "[QUORUM]]]], then commands on its input\n");
    return 2;
  }
  State state;
  state.options.size = sizeof state.options;
  state.options.address = argv[1];
  state.options.job = argv[2];
  state.options.rank = static_cast<std::uint32_t>(std::atoi(argv[3]));
  state.options.ranks = static_cast<std::uint32_t>(std::atoi(argv[4]));
  state.options.log_context = &state;
  state.options.log = [](void* context, int, const char* text) {
    const bool repaired = std::string_view(text).find("is repaired") != std::string_view::npos;
    if (repaired) ++static_cast<State*>(context)->repairs;
    std::fprintf(stderr, "%.3f %s\n",
                 std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count(),
                 text);
  };
  if (argc > 5) state.max = static_cast<std::size_t>(std::atol(argv[5]));
  if (argc > 6) state.options.connect_timeout_ms = static_cast<std::uint32_t>(std::atoi(argv[6]));
  if (argc > 7) {
    const bool finish = std::string_view(argv[7]) == "finish";
    state.options.on_rank_loss = finish ? TALLY_RANK_LOSS_FINISH : TALLY_RANK_LOSS_FAIL;
  }
  if (argc > 8) state.options.quorum = static_cast<std::uint32_t>(std::atoi(argv[8]));
  open(state);
  for (std::string line; std::getline(std::cin, line);) obey(state, line);
  tally_close(state.session);
  return 0;
}
