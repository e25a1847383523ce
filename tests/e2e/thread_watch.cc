#include "tests/e2e/thread_watch.h"

#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace tally::testing {
namespace {

constexpr std::size_t kCalls = 512;  // numbers of system calls

// No constructor: it is used by malloc, from the thread's first moment.
struct Watch {
  bool on;
  std::uint64_t allocations;
  std::uint64_t locks;
  std::array<std::uint64_t, kCalls> calls;
};
thread_local constinit Watch watch{};

void count_allocation() {
  if (watch.on) ++watch.allocations;
}

}  // namespace
}  // namespace tally::testing

// A system call from an address that the filter lets pass: `allowed_call_end` is where it returns.
asm(R"(
.text
.globl tally_allowed_call
.type tally_allowed_call, @function
tally_allowed_call:
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
.globl tally_allowed_call_end
tally_allowed_call_end:
  ret
.size tally_allowed_call, . - tally_allowed_call
)");

extern "C" {

long tally_allowed_call(long number, long a, long b, long c, long d, long e, long f);
extern const char tally_allowed_call_end[];

// The names are glibc's. NOLINTBEGIN(readability-identifier-naming)
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);
// NOLINTEND(readability-identifier-naming)

void* malloc(std::size_t bytes) {
  tally::testing::count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  tally::testing::count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  tally::testing::count_allocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  tally::testing::count_allocation();
  return __libc_memalign(alignment, bytes);
}
void free(void* memory) {
  tally::testing::count_allocation();
  __libc_free(memory);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (tally::testing::watch.on) ++tally::testing::watch.locks;
  return lock(mutex);
}

}  // extern "C"

namespace tally::testing {
namespace {

void on_trap(int, siginfo_t* info, void* context) {
  const auto number = static_cast<std::size_t>(info->si_syscall);
  if (watch.on && number < kCalls) ++watch.calls[number];
  greg_t* r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  r[REG_RAX] = tally_allowed_call(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
                                  r[REG_R8], r[REG_R9]);
}

bool trap_system_calls() {
  const auto address = reinterpret_cast<std::uintptr_t>(tally_allowed_call_end);
  constexpr std::uint32_t kLow = offsetof(seccomp_data, instruction_pointer);
  // Lets pass what comes from tally_allowed_call, and the way back from the trap.
  std::array<sock_filter, 8> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kLow),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(address), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kLow + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(address >> 32), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  }};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

bool watch_this_thread() {
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return ::sigaction(SIGSYS, &action, nullptr) == 0 && trap_system_calls();
}

void start_counting() {
  watch = Watch{};
  watch.on = true;
}

ThreadCounts stop_counting() {
  watch.on = false;
  ThreadCounts counts{watch.allocations, watch.locks, {}};
  for (std::size_t number = 0; number < kCalls; ++number) {
    if (watch.calls[number] > 0)
      counts.system_calls[static_cast<int>(number)] = watch.calls[number];
  }
  return counts;
}

}  // namespace tally::testing
