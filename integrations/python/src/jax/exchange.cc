#include "integrations/python/src/jax/exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/element.h"
#include "integrations/python/src/shared_pool.h"

namespace tally::python {
namespace {

// Operations use this many tags in turn. It is more than can be outstanding.
constexpr std::uint32_t kTags = 1u << 16;
// Far from 0 and from kTags for the first multiples, and odd, so all tags are used alike.
constexpr std::uint32_t kTagsBetweenRuns = 40503;

std::uint64_t next_number() {
  // Numbers are never used twice, so a program that outlives its session gets an error.
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::mutex& current_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Never destroyed, because threads of XLA may outlive every other object.
std::shared_ptr<Exchange>& current() {
  static auto* exchange = new std::shared_ptr<Exchange>;
  return *exchange;
}

}  // namespace

// Memory that the node uses in place.
class Exchange::Block {
 public:
  explicit Block(std::uint64_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    const auto block = SharedPool::instance().allocate(bytes);
    if (!block) throw Failure(static_cast<tally_status>(block.status()), block.error().message);
    data_ = *block;
  }
  ~Block() {
    if (data_ != nullptr) SharedPool::instance().free(data_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t bytes_;
  void* data_ = nullptr;
};

struct Exchange::Operation {
  Operation(const Request& wanted, std::uint64_t in_bytes, std::uint64_t out_bytes)
      // The node writes a result of the input's size over the input.
      : request(wanted), out(out_bytes), in(in_bytes == out_bytes ? 0 : in_bytes) {
    void* const input = in_bytes == out_bytes ? out.data() : in.data();
    if (in_bytes > 0) std::memcpy(input, wanted.in, in_bytes);
    request.in = in_bytes > 0 ? input : nullptr;
    request.out = out.data();
  }

  // Call it once, after the end.
  void finish() {
    if (outcome->status == TALLY_OK) std::memcpy(result, out.data(), out.bytes());
    finished(*outcome);
  }

  Request request;
  Block out, in;
  std::optional<Outcome> outcome;  // set at the end
  void* result = nullptr;
  Finished finished;  // set by finish()
};

Exchange::Exchange(std::shared_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)),
      credit_(std::max<std::uint64_t>(1, communicator_->info().credit)),
      thread_([this] { deliver(); }) {}

Exchange::~Exchange() {
  close();
}

// The tag depends on the number of the run and of the operation in the run. A program that fails at
// one rank in the middle of a run therefore cannot pair its next run with the rest of this run at
// the other ranks. Their operations find no partner and fail at their deadline.
std::uint32_t Exchange::next_tag(std::int64_t run) {
  if (run_ != run) {
    run_ = run;
    ++runs_;
    in_run_ = 0;
  }
  return (runs_ * kTagsBetweenRuns + in_run_++) % kTags;
}

std::uint64_t Exchange::start(const Request& request, std::int64_t run) {
  std::uint32_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) {
      throw Failure(failure_->status,
                    failure_->message +
                        " (an operation before this one; all ranks must call tally.jax.init())",
                    failure_->culprit);
    }
    if (closing_) throw Failure(TALLY_INVALID_ARGUMENT, "the session is closed: call init() again");
    tag = next_tag(run);
  }
  const std::uint64_t number = next_number();
  try {
    const std::uint64_t size = element_bytes(static_cast<ElementType>(request.type));
    const auto operation =
        std::make_shared<Operation>(request, communicator_->contributed(request) * size,
                                    communicator_->received(request) * size);
    operation->request.tag = tag;
    const std::lock_guard lock(mutex_);
    operations_.emplace(number, operation);
    queued_.push_back(operation);
  } catch (const Failure& failure) {  // no memory: the other ranks have this operation
    const std::lock_guard lock(mutex_);
    failure_ = Outcome::of(failure);
    throw;
  }
  post_queued();
  return number;
}

// Communicator::post() waits while there is no credit, so this function posts no more than there is
// credit for. The next end posts the next operation. One thread posts at a time, which keeps the
// order.
void Exchange::post_queued() {
  std::unique_lock lock(mutex_);
  if (posting_) return;
  posting_ = true;
  while (!queued_.empty() && outstanding_ < credit_) {
    const Shared operation = std::move(queued_.front());
    queued_.pop_front();
    ++outstanding_;
    lock.unlock();
    try {
      communicator_->post(operation->request,
                          [this, operation](const Outcome& outcome) { ended(operation, outcome); });
    } catch (const Failure& failure) {
      ended(operation, Outcome::of(failure));
    }
    lock.lock();
  }
  posting_ = false;
}

void Exchange::ended(const Shared& operation, const Outcome& outcome) {
  {
    const std::lock_guard lock(mutex_);
    --outstanding_;
    operation->outcome = outcome;
    if (outcome.status != TALLY_OK && !failure_) failure_ = outcome;
    if (operation->finished) deliveries_.push_back(operation);
    changed_.notify_one();
  }
  post_queued();
}

void Exchange::finish(std::uint64_t number, void* out, Finished finished) {
  Shared operation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(number);
    if (found == operations_.end()) {
      throw Failure(TALLY_CANCELLED, "the session in which the operation started was closed");
    }
    operation = std::move(found->second);
    operations_.erase(found);
    operation->result = out;
    operation->finished = std::move(finished);
    if (!operation->outcome) return;
  }
  operation->finish();
}

// XLA continues the program on the thread that reports the result. So this is a thread of its own:
// the communicator's thread must be free for the completions of other operations.
void Exchange::deliver() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // Until the end of the last operation, which may still be on its way to the communicator.
    changed_.wait(lock, [&] { return (closing_ && outstanding_ == 0) || !deliveries_.empty(); });
    if (deliveries_.empty()) return;
    const Shared operation = std::move(deliveries_.front());
    deliveries_.pop_front();
    lock.unlock();
    operation->finish();
    lock.lock();
  }
}

void Exchange::close() {
  communicator_->close();  // ends what is outstanding
  std::deque<Shared> cancelled;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
    outstanding_ += queued_.size();
    cancelled.swap(queued_);
  }
  Outcome outcome;
  outcome.status = TALLY_CANCELLED;
  outcome.message = "the session was closed while the operation was outstanding";
  for (const Shared& operation : cancelled) ended(operation, outcome);
  changed_.notify_one();
  thread_.join();
}

std::shared_ptr<Exchange> current_exchange() {
  const std::lock_guard lock(current_mutex());
  return current();
}

void set_exchange(std::shared_ptr<Exchange> exchange) {
  {
    const std::lock_guard lock(current_mutex());
    current().swap(exchange);
  }
  if (exchange) exchange->close();
}

}  // namespace tally::python
