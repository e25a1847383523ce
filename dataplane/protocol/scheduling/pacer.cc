#include "dataplane/protocol/scheduling/pacer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace tally::protocol {
namespace {

// Chosen in simulations in which messages took only a hop's latency. On a network twice as fast as
// the plan says, an operation took 0.56 to 0.86 of the time that the plan predicts, and 0.75 to
// 0.94 where messages wait in queues (docs/simulator.md).
constexpr double kFaster = 17.0 / 16;
constexpr double kSlower = 0.5;
constexpr double kMostSpeed = 1 << 20;

// The fractions of multiples of the golden ratio are spread evenly, however many there are.
double phase_of(std::uint32_t tree) {
  return std::fmod(tree * std::numbers::phi, 1.0);
}

}  // namespace

Pacer::Paced* Pacer::find(JobId job, std::uint32_t vertex) {
  return const_cast<Paced*>(std::as_const(*this).find(job, vertex));
}

const Pacer::Paced* Pacer::find(JobId job, std::uint32_t vertex) const {
  if (job >= roots_.size() || vertex >= roots_[job].size()) return nullptr;
  const Paced& paced = roots_[job][vertex];
  return paced.nanos_per_byte > 0 ? &paced : nullptr;
}

void Pacer::add(const Root& root) {
  if (root.bytes_per_second == 0) return;
  if (root.job >= roots_.size()) roots_.resize(root.job + 1);
  auto& roots = roots_[root.job];
  if (root.vertex >= roots.size()) roots.resize(root.vertex + 1);
  waiting_.reserve(roots_with_pace_ + 1);
  Paced& paced = roots[root.vertex];
  paced.held.reserve(root.operations);
  paced.few = root.height + 1;
  paced.most = root.height * kMostTiles;
  paced.nanos_per_byte = static_cast<double>(kSecond) / static_cast<double>(root.bytes_per_second);
  paced.phase = phase_of(root.tree);
  ++roots_with_pace_;
}

void Pacer::remove_job(JobId job) {
  if (job >= roots_.size()) return;
  std::erase_if(waiting_, [&](const Place& place) { return place.job == job; });
  roots_with_pace_ -= static_cast<std::size_t>(std::ranges::count_if(
      roots_[job], [](const Paced& paced) { return paced.nanos_per_byte > 0; }));
  roots_[job].clear();
}

bool Pacer::is_due(JobId job, std::uint32_t vertex) const {
  const Paced* paced = find(job, vertex);
  return paced == nullptr || (paced->due <= now_ && paced->tiles < paced->most);
}

void Pacer::hold(JobId job, std::uint32_t vertex, const TileScheduler::Ready& operation) {
  Paced& paced = roots_[job][vertex];
  if (paced.held.empty()) {
    waiting_.push_back({job, vertex});
    if (paced.tiles == 0) go_faster(paced);  // an operation waits, and the tree is idle
  }
  paced.held.push_back(operation);
  std::push_heap(paced.held.begin(), paced.held.end());
}

void Pacer::remove(JobId job, std::uint32_t vertex, PoolIndex operation) {
  Paced* paced = find(job, vertex);
  if (paced == nullptr) return;
  const auto is_it = [&](const auto& one) { return one.operation == operation; };
  if (std::erase_if(paced->held, is_it) == 0) return;
  std::make_heap(paced->held.begin(), paced->held.end());
  if (!paced->held.empty()) return;
  std::erase_if(waiting_, [&](const Place& at) { return at.job == job && at.vertex == vertex; });
}

TileScheduler::Ready Pacer::take(std::size_t waiting) {
  const auto [job, vertex] = waiting_[waiting];
  Paced& root = roots_[job][vertex];
  root.waited = true;
  auto& held = root.held;
  std::pop_heap(held.begin(), held.end());
  const TileScheduler::Ready operation = held.back();
  held.pop_back();
  if (held.empty()) {
    waiting_[waiting] = waiting_.back();
    waiting_.pop_back();
  }
  return operation;
}

// A tile for each level of the tree can be on its way, and one more. Further ones wait in queues.
void Pacer::started(JobId job, std::uint32_t vertex, std::uint64_t bytes) {
  Paced* paced = find(job, vertex);
  if (paced == nullptr) return;
  if (++paced->tiles > paced->few) paced->speed = std::max(paced->speed * kSlower, 1.0);
  const double nanos = static_cast<double>(bytes) * paced->nanos_per_byte / paced->speed;
  const auto between = static_cast<Nanos>(nanos);
  const bool waited = std::exchange(paced->waited, false);
  if (paced->tiles == 1 && !waited && paced->due < now_ - between) {  // after a pause
    paced->due = now_ + static_cast<Nanos>(nanos * (1 + paced->phase));
    return;
  }
  paced->due = std::max(paced->due, now_ - std::max(kCatchUp, between)) + between;
}

void Pacer::ended(JobId job, std::uint32_t vertex) {
  Paced* paced = find(job, vertex);
  if (paced == nullptr) return;
  --paced->tiles;
  // An operation waits, and hardly any tile is on its way.
  if (!paced->held.empty() && paced->tiles < paced->few) go_faster(*paced);
}

void Pacer::go_faster(Paced& root) {
  root.speed = std::min(root.speed * kFaster, kMostSpeed);
}

// A root with as many tiles in flight as it may have waits for the end of one.
Nanos Pacer::next_release() const {
  Nanos next = kForever;
  for (const auto& [job, vertex] : waiting_) {
    const Paced& paced = roots_[job][vertex];
    if (paced.tiles < paced.most) next = std::min(next, paced.due);
  }
  return next;
}

}  // namespace tally::protocol
