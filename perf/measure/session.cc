#include "perf/measure/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace tally::perf {
namespace {

constexpr std::uint32_t kBarrierTag = 0x7fff0000;  // no bucket has this tag
constexpr std::uint32_t kAgreeTag = 0x7fff0002;
constexpr std::uint32_t kDefaultDeadlineMs = 60'000;
// The library ends every wait by itself, at a deadline of its own after that of the operation. A
// wait that lasts this much longer shows that the library hangs.
constexpr std::uint32_t kGraceMs = 60'000;

}  // namespace

Session::Session(const Options& options, double connect_s, tally_log_fn log, void* log_context)
    : rank_(options.rank) {
  tally_session_options open{};
  open.size = sizeof open;
  open.address = options.address.c_str();
  open.job = options.job.empty() ? nullptr : options.job.c_str();
  open.token = options.token.empty() ? nullptr : options.token.c_str();
  open.rank = options.rank;
  open.ranks = options.ranks;
  open.default_deadline_ms = options.deadline_ms;
  open.connect_timeout_ms = static_cast<std::uint32_t>(std::max(1.0, 1000 * connect_s));
  open.transport = options.transport == "auto" ? nullptr : options.transport.c_str();
  open.log = log;
  open.log_context = log_context;
  if (const tally_status status = tally_open(&open, &session_); status != TALLY_OK) {
    fail(status, "open");
  }
  info_.size = sizeof info_;
  if (const tally_status status = tally_get_info(session_, &info_); status != TALLY_OK) {
    const std::string message = tally_last_error(session_);
    tally_close(session_);
    throw Failure(status, message);
  }
  timeout_ms_ = (options.deadline_ms != 0 ? options.deadline_ms : kDefaultDeadlineMs) + kGraceMs;
}

Session::~Session() {
  tally_close(session_);
}

void Session::fail(tally_status status, const char* doing) const {
  throw Failure(status, fmt::format("{}: {}: {}", doing, tally_status_name(status),
                                    tally_last_error(session_)));
}

Arena Session::allocate(Memory memory, std::uint64_t bytes) {
  if (memory == Memory::kCuda) return allocate_on_device(bytes);
  if (memory != Memory::kAlloc) return map_and_register(memory, bytes);
  Arena arena{.bytes = bytes};
  void* data = nullptr;
  const tally_status status = tally_region_alloc(session_, bytes, &arena.region, &data);
  if (status != TALLY_OK) fail(status, "allocate memory");
  arena.data = static_cast<std::byte*>(data);
  return arena;
}

Arena Session::map_and_register(Memory memory, std::uint64_t bytes) {
  tally_memory description{};
  description.size = sizeof description;
  description.bytes = bytes;
  description.fd = -1;
  if (memory == Memory::kShared) {
    UniqueFd file(memfd_create("tally-perf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
      throw Failure(TALLY_NO_MEMORY, fmt::format("memfd: {}", std::strerror(errno)));
    }
    description.kind = TALLY_MEMORY_SHARED;
    description.fd = file.get();
    mappings_.push_back(Mapping::shared(file.get(), bytes, true));
    files_.push_back(std::move(file));
  } else {
    description.kind = TALLY_MEMORY_HOST;
    description.flags = memory == Memory::kStage ? TALLY_REGION_STAGE : 0;
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    mappings_.push_back(address == MAP_FAILED ? Mapping() : Mapping(address, bytes));
  }
  if (!mappings_.back()) {
    throw Failure(TALLY_NO_MEMORY, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
  }
  description.data = mappings_.back().data();
  Arena arena{.data = mappings_.back().data(), .bytes = bytes};
  const tally_status status = tally_region_register(session_, &description, &arena.region);
  if (status != TALLY_OK) fail(status, "register memory");
  return arena;
}

Arena Session::allocate_on_device(std::uint64_t bytes) {
  if (device_ == nullptr) {
    auto opened = Device::open(rank_);
    if (!opened) throw Failure(TALLY_UNSUPPORTED, opened.error().message);
    device_ = std::move(opened).value();
  }
  const auto made = device_->allocate(bytes);
  if (!made) throw Failure(TALLY_NO_MEMORY, made.error().message);
  void* const mirror = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mirror == MAP_FAILED) {
    throw Failure(TALLY_NO_MEMORY, fmt::format("map {} bytes: {}", bytes, std::strerror(errno)));
  }
  mappings_.emplace_back(mirror, bytes);
  Arena arena{.data = mappings_.back().data(), .bytes = bytes, .device = *made};
  tally_memory description{};
  description.size = sizeof description;
  description.kind = TALLY_MEMORY_CUDA;
  description.data = reinterpret_cast<void*>(*made);
  description.bytes = bytes;
  const tally_status status = tally_region_register(session_, &description, &arena.region);
  if (status != TALLY_OK) fail(status, "register memory of the GPU");
  return arena;
}

void Session::to_device(const Arena& arena, std::uint64_t bytes) const {
  if (arena.device == 0) return;
  const auto copied = device_->upload(arena.device, arena.data, bytes);
  if (!copied) throw Failure(TALLY_INTERNAL, copied.error().message);
}

void Session::from_device(const Arena& arena, std::uint64_t bytes) const {
  if (arena.device == 0) return;
  const auto copied = device_->download(arena.data, arena.device, bytes);
  if (!copied) throw Failure(TALLY_INTERNAL, copied.error().message);
}

void* Session::stream() const {
  return device_ != nullptr ? device_->stream() : nullptr;
}

bool Session::post(const tally_operation& operation) {
  const tally_status status = tally_post(session_, &operation);
  if (status == TALLY_NO_CREDIT) return false;
  if (status != TALLY_OK) fail(status, "post");
  return true;
}

tally_completion Session::wait() {
  tally_completion completion{};
  completion.size = sizeof completion;
  const tally_status status = tally_wait(session_, &completion, static_cast<int>(timeout_ms_));
  if (status == TALLY_AGAIN) {
    throw Failure(TALLY_DEADLINE, fmt::format("no completion came for {} ms", timeout_ms_));
  }
  if (status != TALLY_OK) fail(status, "wait");
  if (completion.status == TALLY_OK) return completion;
  std::string message =
      fmt::format("{}: {}", tally_status_name(completion.status), completion.message);
  if (completion.culprit != TALLY_NO_RANK) {
    message += fmt::format(" (rank {} is to blame)", completion.culprit);
  }
  throw Failure(completion.status, message);
}

void Session::barrier() {
  tally_operation operation{};
  operation.size = sizeof operation;
  operation.kind = TALLY_BARRIER;
  operation.tag = kBarrierTag;
  if (!post(operation)) throw Failure(TALLY_NO_CREDIT, "no credit for a barrier");
  wait();
}

std::uint64_t Session::agree(std::uint64_t value) {
  if (agreed_.data == nullptr) agreed_ = allocate(Memory::kAlloc, 2 * sizeof value);
  std::memcpy(agreed_.data, &value, sizeof value);
  tally_operation operation{};
  operation.size = sizeof operation;
  operation.kind = TALLY_BROADCAST;
  operation.type = TALLY_I64;
  operation.tag = kAgreeTag;
  operation.count = 1;
  if (info_.rank == 0) operation.in.region = agreed_.region;
  operation.out = tally_buffer{agreed_.region, sizeof value};
  if (!post(operation)) throw Failure(TALLY_NO_CREDIT, "no credit to agree on the time");
  wait();
  std::memcpy(&value, agreed_.data + sizeof value, sizeof value);
  return value;
}

}  // namespace tally::perf
