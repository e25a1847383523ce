#include "dataplane/engine/eal.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace tally::engine {
namespace {

// Receives the EAL's log lines. The EAL has one log per process and writes lines until the process
// ends, so the object is never destroyed.
class EalLog {
 public:
  static EalLog& instance() {
    static EalLog* log = new EalLog();
    return *log;
  }

  void open(bool verbose) {
    const std::scoped_lock lock(mutex_);
    verbose_ = verbose;
    if (stream_ != nullptr) return;
    cookie_io_functions_t functions{};
    functions.write = [](void* self, const char* text, std::size_t bytes) -> ssize_t {
      static_cast<EalLog*>(self)->write({text, bytes});
      return static_cast<ssize_t>(bytes);
    };
    stream_ = fopencookie(this, "w", functions);
    if (stream_ == nullptr) return;
    setvbuf(stream_, nullptr, _IOLBF, BUFSIZ);
    rte_openlog_stream(stream_);
  }

  // Returns the end of the log, in one line.
  std::string tail() {
    const std::scoped_lock lock(mutex_);
    std::string line = kept_.substr(kept_.size() - std::min(kept_.size(), kTailBytes));
    while (!line.empty() && line.back() == '\n') line.pop_back();
    for (char& c : line) {
      if (c == '\n') c = '|';
    }
    return line.empty() ? "no message" : line;
  }

 private:
  static constexpr std::size_t kKeptBytes = 4096;
  static constexpr std::size_t kTailBytes = 300;

  void write(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    kept_.append(text);
    if (kept_.size() > kKeptBytes) kept_.erase(0, kept_.size() - kKeptBytes);
    if (verbose_) static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  }

  std::mutex mutex_;
  std::string kept_;
  std::FILE* stream_ = nullptr;
  bool verbose_ = false;
};

// Returns a set of CPUs in the EAL's notation, for example "(0-3,8)".
std::string cpu_list(const cpu_set_t& cpus) {
  std::string list;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &cpus)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) ++last;
    if (!list.empty()) list += ',';
    list += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return "(" + list + ")";
}

// Returns the first CPU of the set behind `cpu`. Precondition: there is one.
int next_cpu(const cpu_set_t& cpus, int cpu) {
  do ++cpu;
  while (!CPU_ISSET(cpu, &cpus));
  return cpu;
}

// Returns true when the kernel would give this much memory on pages of this size. The test touches
// no page. When the kernel accepts the mapping, it holds a reservation, as the EAL will need it.
bool can_reserve(std::size_t bytes, unsigned page_shift) {
  const std::size_t page = std::size_t{1} << page_shift;
  const std::size_t rounded = (bytes + page - 1) / page * page;
  const int flags =
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | static_cast<int>(page_shift << MAP_HUGE_SHIFT);
  void* address = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (address == MAP_FAILED) return false;
  ::munmap(address, rounded);
  return true;
}

bool hugepages_usable(std::size_t bytes) {
  constexpr unsigned k2MibShift = 21;
  constexpr unsigned k1GibShift = 30;
  return can_reserve(bytes, k2MibShift) || can_reserve(bytes, k1GibShift);
}

std::vector<std::string> arguments(const EalOptions& options, bool huge, const cpu_set_t& cpus) {
  // Lcore 0 is the caller's thread. It may run on all allowed cores. A lone shard may too, and so
  // may shards when there are more of them than cores. Otherwise each shard has a core of its own,
  // because two shards on one core take twice the time while another core has nothing to do, and
  // the scheduler does not separate them. The options may assign the cores instead.
  const bool pinned =
      options.shards > 1 && options.shards <= static_cast<std::uint32_t>(CPU_COUNT(&cpus));
  const std::string all = cpu_list(cpus);
  std::string lcores = fmt::format("0@{}", all);
  int cpu = -1;
  for (std::uint32_t id = 1; id <= options.shards; ++id) {
    if (!options.cpus.empty()) {
      cpu = options.cpus[id - 1];
    } else if (pinned) {
      cpu = next_cpu(cpus, cpu);
    }
    lcores += fmt::format(",{}@{}", id, cpu >= 0 ? std::to_string(cpu) : all);
  }
  std::vector<std::string> arguments = {
      "tally", "--lcores", lcores, "--main-lcore", "0", "--no-telemetry",
      // Nothing uses physical addresses, which only root could look up.
      "--iova-mode", "va", "--file-prefix", fmt::format("tally-{}", ::getpid()), "-m",
      fmt::format("{}", options.memory_mib)};
  if (options.pci_device.empty()) {
    arguments.push_back("--no-pci");
  } else {
    arguments.insert(arguments.end(), {"-a", options.pci_device});
  }
  if (huge) {
    arguments.push_back("--in-memory");  // needs no hugetlbfs mount and leaves no files behind
  } else {
    // --in-memory excludes --no-huge. Without a shared configuration there are no files either.
    arguments.insert(arguments.end(), {"--no-huge", "--no-shconf"});
  }
  return arguments;
}

int init(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return rte_eal_init(static_cast<int>(arguments.size()), argv.data());
}

Outcome validate(const EalOptions& options) {
  if (options.shards < 1 || options.shards > kMaxShards) {
    return Error{Status::kInvalidArgument,
                 fmt::format("shards is {}: must be 1 to {}", options.shards, kMaxShards)};
  }
  if (!options.cpus.empty() && options.cpus.size() != options.shards) {
    return Error{Status::kInvalidArgument, fmt::format("{} CPUs for {} shards: give each one",
                                                       options.cpus.size(), options.shards)};
  }
  if (options.memory_mib < 1) {
    return Error{Status::kInvalidArgument, "memory of the engine is 0 MiB: must be at least 1"};
  }
  const std::size_t bytes = options.memory_mib * kMib;
  if (options.hugepages == Hugepages::kOn && !hugepages_usable(bytes)) {
    return Error{
        Status::kNoMemory,
        fmt::format("hugepages is \"on\" and {} MiB of hugepages are not free: reserve them "
                    "(sysctl vm.nr_hugepages={}, or more where others use them too), or set "
                    "hugepages to \"auto\"",
                    options.memory_mib, (options.memory_mib + 1) / 2)};
  }
  return Unit{};
}

}  // namespace

EalMemory::EalMemory(EalMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

EalMemory& EalMemory::operator=(EalMemory&& other) noexcept {
  if (this != &other) {
    rte_free(data_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

EalMemory::~EalMemory() {
  if (data_ != nullptr) rte_free(data_);
}

// `running` passes the body to the shard's thread and back. The EAL synchronizes by its own means
// too, but the sanitizers do not see these.
struct Eal::Thread {
  std::atomic<bool> running{false};
  std::function<void()> body;
};

Eal::Eal(const EalOptions& options, bool on_hugepages)
    : memory_mib_(options.memory_mib), on_hugepages_(on_hugepages) {
  for (std::uint32_t i = 0; i < options.shards; ++i) threads_.push_back(std::make_unique<Thread>());
}

Eal::~Eal() {
  join();
  rte_eal_cleanup();
}

Result<std::unique_ptr<Eal>> Eal::start(const EalOptions& options) {
  if (auto valid = validate(options); !valid) return valid.error();
  static std::atomic<bool> started{false};
  if (started.exchange(true)) {
    return Error{Status::kInternal, "the EAL was started before: it starts once per process"};
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
    return Error{Status::kInternal,
                 fmt::format("cannot read the allowed CPUs: {}", std::strerror(errno))};
  }
  const bool huge =
      options.hugepages != Hugepages::kOff && hugepages_usable(options.memory_mib * kMib);
  EalLog::instance().open(options.verbose);
  if (init(arguments(options, huge, cpus)) < 0) {
    return Error{Status::kNoMemory,
                 fmt::format("DPDK's EAL did not start with {} shards and {} MiB on {} pages "
                             "({}); its log: {}; {}",
                             options.shards, options.memory_mib, huge ? "huge" : "ordinary",
                             rte_strerror(rte_errno), EalLog::instance().tail(),
                             huge ? "try hugepages = \"off\"" : "try fewer shards or less memory")};
  }
  // rte_eal_init() has pinned this thread; new threads would inherit that.
  ::sched_setaffinity(0, sizeof cpus, &cpus);
  // The EAL leaves only an empty directory in the file system.
  if (const char* directory = rte_eal_get_runtime_dir()) ::rmdir(directory);
  return std::unique_ptr<Eal>(new Eal(options, huge));
}

int Eal::run(void* argument) {
  auto* thread = static_cast<Thread*>(argument);
  // Acquire pairs with launch()'s release.
  static_cast<void>(thread->running.load(std::memory_order_acquire));
  // The body may own objects. They are destroyed here, on the thread that used them.
  [&]() noexcept { std::exchange(thread->body, nullptr)(); }();
  thread->running.store(false, std::memory_order_release);
  return 0;
}

Outcome Eal::launch(std::uint32_t shard, std::function<void()> body) {
  if (shard >= threads_.size()) {
    return Error{Status::kInvalidArgument,
                 fmt::format("shard {} cannot be launched: there are {}", shard, threads_.size())};
  }
  Thread& thread = *threads_[shard];
  const unsigned lcore = shard + 1;
  // Acquire pairs with the release at the end of the previous run(). The EAL marks the thread free
  // a moment after that; rte_eal_wait_lcore() waits for it.
  if (thread.running.load(std::memory_order_acquire)) {
    return Error{Status::kInternal, fmt::format("shard {} is running already", shard)};
  }
  rte_eal_wait_lcore(lcore);
  thread.body = std::move(body);
  thread.running.store(true, std::memory_order_release);
  if (const int failed = rte_eal_remote_launch(&Eal::run, &thread, lcore); failed != 0) {
    thread.running.store(false, std::memory_order_relaxed);
    thread.body = nullptr;
    return Error{Status::kInternal,
                 fmt::format("shard {} does not launch: {}", shard, rte_strerror(-failed))};
  }
  return Unit{};
}

void Eal::join() {
  for (std::size_t shard = 0; shard < threads_.size(); ++shard) {
    rte_eal_wait_lcore(static_cast<unsigned>(shard + 1));
    // Acquire pairs with run()'s release.
    static_cast<void>(threads_[shard]->running.load(std::memory_order_acquire));
  }
}

Result<EalMemory> Eal::allocate(std::size_t bytes, std::size_t align) const {
  if (bytes == 0 || !std::has_single_bit(align) || align > UINT32_MAX) {
    return Error{Status::kInvalidArgument,
                 fmt::format("cannot allocate {} bytes aligned to {}: the size must not be 0, the "
                             "alignment must be a power of two",
                             bytes, align)};
  }
  auto* data = static_cast<std::byte*>(rte_malloc(nullptr, bytes, static_cast<unsigned>(align)));
  if (data == nullptr) {
    return Error{Status::kNoMemory,
                 fmt::format("no {} bytes left of the engine's {} MiB: raise memory.engine_mib, or "
                             "use fewer shards or smaller windows",
                             bytes, memory_mib_)};
  }
  std::memset(data, 0, bytes);
  return EalMemory(data, bytes);
}

}  // namespace tally::engine
