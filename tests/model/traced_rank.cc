#include "tests/model/traced_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace tally::traces {
namespace {

constexpr std::uint32_t kTag = 7;
constexpr std::uint32_t kEagerElements = 16;

}  // namespace

std::uint64_t elements_of_part(const Trace& trace) {
  return trace.eager() ? kEagerElements : protocol::kCutElements;
}

std::uint64_t TracedRank::count_of(const Trace& trace) {
  return elements_of_part(trace) * trace.parts();
}

TracedRank::TracedRank(const Trace& trace, std::uint16_t rank)
    : trace_(trace), rank_(rank), in_(count_of(trace)), out_(count_of(trace)) {
  for (std::vector<float>* buffer : {&in_, &out_}) {
    regions_.push_back(client::Region::borrow(buffer->data(), buffer->size() * sizeof(float)));
    regions_.back()->id = static_cast<std::uint32_t>(regions_.size());
    pointers_.push_back(regions_.back().get());
  }
}

// A session that has not ended would wait for its nodes.
TracedRank::~TracedRank() {
  channel_.close();
  if (session_ && !session_->lost()) die();
}

void TracedRank::open() {
  client::SessionOptions options;
  options.address = "unix:/nowhere";
  options.job = "train";
  options.rank = rank_;
  options.ranks = trace_.ranks();
  options.deadline_ms = 600'000;
  options.checksums = false;
  auto session = client::Session::open(std::move(options));
  if (!session) throw std::runtime_error(session.error().message);
  session_ = std::move(session).value();
}

ConnectionState& TracedRank::state(std::uint32_t version, std::uint32_t part) const {
  for (const auto& state : states_) {
    if (state->version == version && state->part == part) return *state;
  }
  throw Disagreement(
      fmt::format("rank {} has no connection for part {} of version {}", rank_, part, version));
}

std::vector<std::shared_ptr<ConnectionState>> TracedRank::open_states() const {
  std::vector<std::shared_ptr<ConnectionState>> open;
  std::copy_if(states_.begin(), states_.end(), std::back_inserter(open),
               [](const auto& state) { return state->is_open(); });
  return open;
}

bool TracedRank::has_left(std::uint32_t version) const {
  return std::any_of(states_.begin(), states_.end(), [version](const auto& state) {
    return state->version == version && !state->is_open();
  });
}

std::uint32_t TracedRank::post(std::uint32_t round) {
  for (std::uint64_t i = 0; i < in_.size(); ++i) in_[i] = element_of(rank_, round, i);
  client::Post post;
  post.notice.tag = kTag;
  post.notice.count = in_.size();
  post.in = pointers_[0];
  post.out = trace_.in_place() ? pointers_[0] : pointers_[1];
  post.preserve = trace_.preserve();
  const auto posted = session_->post(post);
  if (!posted) throw Disagreement("the session refuses the post: " + posted.error().message);
  return *posted;
}

bool TracedRank::cancel() {
  return session_->cancel(kTag).ok();
}

void TracedRank::look_around() {
  if (!is_dead_) session_->arm();
}

void TracedRank::take_completions() {
  if (is_dead_) return;
  client::Completed completed;
  while (session_->poll(completed)) note(completed);
}

void TracedRank::note(const client::Completed& completed) {
  const bool ok = completed.status == Status::kOk;
  if (session_->lost() && !ok) return;  // the end of the session says it
  ends_.push_back({completed.round, ok});
  const std::vector<float>& result = trace_.in_place() ? in_ : out_;
  for (std::uint64_t i = 0; ok && i < result.size(); ++i) {
    if (result[i] == sum_of(trace_.ranks(), completed.round, i)) continue;
    throw Disagreement(fmt::format("rank {}: element {} of round {} is {}, and not {}", rank_, i,
                                   completed.round + 1, result[i],
                                   sum_of(trace_.ranks(), completed.round, i)));
  }
}

std::optional<End> TracedRank::take_end() {
  if (ends_.empty()) return std::nullopt;
  const End end = ends_.front();
  ends_.pop_front();
  return end;
}

// A session that waits for its repair looks at no node.
void TracedRank::die() {
  for (const auto& state : states_) state->broken = true;
  channel_.end_sending();
  look_around();
  take_completions();
  is_dead_ = true;
}

}  // namespace tally::traces
