#include "integrations/python/src/torch/bucket_reducer.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "integrations/python/src/shared_pool.h"
#include "integrations/python/src/torch/allocator.h"
#include "integrations/python/src/torch/tensors.h"
#include "integrations/python/src/torch/work.h"

namespace tally::python {
namespace {

// The number of completed buckets that a rank remembers. Another rank is at most one backward pass
// behind, and has fewer buckets outstanding.
constexpr std::size_t kRemembered = 4096;
// To copy a smaller buffer is cheaper, because it shares its pages with other memory.
constexpr std::size_t kAdoptFrom = kSharedFrom;

}  // namespace

BucketReducer::Adoption::Adoption(std::shared_ptr<Communicator> communicator, at::Tensor buffer)
    : communicator_(std::move(communicator)), buffer_(std::move(buffer)) {
  communicator_->adopt(buffer_.data_ptr(), buffer_.nbytes());
}

BucketReducer::Adoption::~Adoption() {
  try {
    communicator_->forget(buffer_.data_ptr());
  } catch (const Failure&) {  // the session is over, and has put the pages back
  }
}

bool BucketReducer::Adoption::covers(const Communicator& communicator,
                                     const at::Tensor& buffer) const {
  return communicator_.get() == &communicator && buffer_.data_ptr() == buffer.data_ptr() &&
         buffer_.nbytes() == buffer.nbytes();
}

// Plain numbers, so that ranks can gather it as bytes.
struct BucketReducer::Report {
  std::uint64_t first = 0;  // the number of entry 0
  std::uint64_t count = 0;  // entries
  struct Entry {
    std::uint64_t completed = 0;
    std::uint64_t nonfinite = 0;
    double sum_of_squares = 0;
  };
  std::array<Entry, kRemembered> entries{};

  const Entry* find(std::uint64_t number) const {
    return number >= first && number - first < count ? &entries[number - first] : nullptr;
  }
};

BucketReducer::Future BucketReducer::average(std::uint32_t index, const at::Tensor& in,
                                             const at::Tensor& out, c10::IValue value,
                                             const c10::TypePtr& type, bool stats, tally_op op) {
  require_dense(in, "the bucket");
  if (!type_of(in.scalar_type())) {
    throw Failure(TALLY_UNSUPPORTED, std::string("a bucket of ") + at::toString(in.scalar_type()));
  }
  auto bucket = std::make_shared<Bucket>();
  *bucket = {
      0,     index, in, out, std::move(value), c10::make_intrusive<c10::ivalue::Future>(type),
      stats, op};
  {
    const std::lock_guard lock(mutex_);
    if (index == 0) {  // a backward pass begins, maybe with fewer buckets than the last one
      of_bucket_.clear();
      presence_.clear();
    }
    bucket->number = next_number_++;
    outstanding_.emplace(bucket->number, bucket);
  }
  if (in.numel() == 0) {
    complete(bucket, {});
  } else {
    post(bucket);
  }
  return bucket->future;
}

void BucketReducer::post(const SharedBucket& bucket) {
  std::shared_ptr<Communicator> communicator;
  std::uint64_t session = 0;
  {
    const std::lock_guard lock(mutex_);
    communicator = communicator_;
    session = session_;
  }
  adopt(bucket->index, bucket->in, communicator);
  Request request;
  request.type = *type_of(bucket->in.scalar_type());
  request.op = bucket->op;
  request.count = static_cast<std::uint64_t>(bucket->in.numel());
  request.in = bucket->in.data_ptr();
  request.out = bucket->out.data_ptr();
  request.priority = std::min<std::uint32_t>(bucket->index, 255);
  request.stats = bucket->stats;
  request.tag = bucket->index;
  try {
    communicator->post(request, [self = shared_from_this(), bucket, session](const Outcome& one) {
      self->ended(bucket, one, session);
    });
  } catch (const Failure& failure) {
    ended(bucket, Outcome::of(failure), session);
  }
}

// The node already has the memory of the pool. A buffer that cannot be adopted is copied.
void BucketReducer::adopt(std::uint32_t index, const at::Tensor& buffer,
                          const std::shared_ptr<Communicator>& communicator) {
  if (buffer.nbytes() < kAdoptFrom || SharedPool::instance().find(buffer.data_ptr())) return;
  std::unique_ptr<Adoption> before;
  {
    const std::lock_guard lock(mutex_);
    before.swap(adopted_[index]);
  }
  if (before == nullptr || !before->covers(*communicator, buffer)) {
    before.reset();
    try {
      before = std::make_unique<Adoption>(communicator, buffer);
    } catch (const Failure&) {
      return;
    }
  }
  const std::lock_guard lock(mutex_);
  adopted_[index] = std::move(before);
}

void BucketReducer::ended(const SharedBucket& bucket, const Outcome& outcome,
                          std::uint64_t session) {
  if (outcome.status == TALLY_OK) {
    {
      const std::lock_guard lock(mutex_);
      presence_[bucket->index] = {outcome.contributors, outcome.round};
    }
    return complete(bucket, {outcome.sum_of_squares, outcome.nonfinite});
  }
  if (outcome.status == TALLY_NODE_LOST) {
    std::unique_lock lock(mutex_);
    if (session != session_) {  // resume() has set another session meanwhile
      lock.unlock();
      return post(bucket);
    }
    if (!closed_) {
      stranded_.emplace(bucket->number, bucket);
      changed_.notify_all();
      return;
    }
  }
  fail(bucket, outcome.failure());
}

void BucketReducer::fail(const SharedBucket& bucket, const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    outstanding_.erase(bucket->number);
  }
  bucket->future->setErrorIfNeeded(std::make_exception_ptr(with_known_words(failure)));
}

void BucketReducer::complete(const SharedBucket& bucket, const Statistics& statistics) {
  {
    const std::lock_guard lock(mutex_);
    outstanding_.erase(bucket->number);
    completed_[bucket->number] = statistics;
    if (completed_.size() > kRemembered / 2) completed_.erase(completed_.begin());
    if (bucket->stats) of_bucket_[bucket->index] = statistics;
  }
  bucket->future->markCompleted(bucket->value);
}

BucketReducer::Statistics BucketReducer::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics all;
  for (const auto& [bucket, one] : of_bucket_) {
    all.sum_of_squares += one.sum_of_squares;
    all.nonfinite += one.nonfinite;
  }
  return all;
}

std::map<std::uint32_t, BucketReducer::Presence> BucketReducer::presence() const {
  const std::lock_guard lock(mutex_);
  return presence_;
}

bool BucketReducer::wait_until_stranded() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !stranded_.empty(); });
  return !closed_;
}

std::vector<BucketReducer::Report> BucketReducer::exchange(Communicator& communicator) {
  std::vector<Report> reports(communicator.ranks());
  const auto mine = std::make_unique<Report>();
  {
    const std::lock_guard lock(mutex_);
    mine->first = completed_.empty() ? next_number_ : completed_.begin()->first;
    if (!outstanding_.empty()) mine->first = std::min(mine->first, outstanding_.begin()->first);
    mine->count = std::min<std::uint64_t>(next_number_ - mine->first, kRemembered);
    for (std::uint64_t i = 0; i < mine->count; ++i) {
      const auto found = completed_.find(mine->first + i);
      if (found == completed_.end()) continue;
      mine->entries[i] = {1, found->second.nonfinite, found->second.sum_of_squares};
    }
  }
  Outcome outcome;
  std::atomic<bool> ended{false};
  communicator.post(
      moving(TALLY_ALL_GATHER, reports.size() * sizeof(Report), mine.get(), reports.data()),
      [&](const Outcome& one) {
        outcome = one;
        ended.store(true, std::memory_order_release);
      });
  communicator.await([&] { return ended.load(std::memory_order_acquire); }, std::nullopt);
  if (outcome.status != TALLY_OK) throw outcome.failure();
  return reports;
}

// A bucket that another rank has completed also ends here, without moving a byte.
void BucketReducer::resume(std::shared_ptr<Communicator> communicator) {
  const std::vector<Report> reports = exchange(*communicator);
  std::map<std::uint64_t, SharedBucket> stranded;
  std::map<std::uint32_t, std::unique_ptr<Adoption>> adopted;  // by the session that is over
  {
    const std::lock_guard lock(mutex_);
    adopted.swap(adopted_);
    communicator_.swap(communicator);
    ++session_;
    stranded.swap(stranded_);
  }
  adopted.clear();
  for (const auto& [number, bucket] : stranded) {
    const Report::Entry* done = nullptr;
    for (const Report& report : reports) {
      const Report::Entry* entry = report.find(number);
      if (entry != nullptr && entry->completed != 0) done = entry;
    }
    if (done != nullptr) {
      complete(bucket, {done->sum_of_squares, done->nonfinite});
    } else if (bucket->in.data_ptr() == bucket->out.data_ptr()) {
      fail(bucket, {TALLY_NODE_LOST,
                    "the node was lost while it stored bucket " + std::to_string(bucket->index) +
                        " over its inputs: this step's gradients are gone",
                    TALLY_NO_RANK, true});
    } else {
      post(bucket);
    }
  }
}

void BucketReducer::give_up(const Failure& failure) {
  std::map<std::uint64_t, SharedBucket> stranded;
  {
    const std::lock_guard lock(mutex_);
    stranded.swap(stranded_);
  }
  for (const auto& [number, bucket] : stranded) fail(bucket, failure);
}

void BucketReducer::close() {
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    communicator = communicator_;
  }
  give_up(Failure(TALLY_CANCELLED, "the hook's State was closed"));
  communicator->close();
}

}  // namespace tally::python
