#include "control/plan/forestcoll/splitting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tally::plan::forestcoll {
namespace {

// Leaves out the circles of a route, which end at the switch where they begin.
void shorten(std::vector<std::uint32_t>& via) {
  for (std::size_t i = 0; i < via.size(); ++i) {
    const auto last = std::find(via.rbegin(), via.rend(), via[i]).base();
    via.erase(via.begin() + static_cast<std::ptrdiff_t>(i) + 1, last);
  }
}

class Splitter {
 public:
  Splitter(const Capacities& capacities, std::size_t workers, std::int64_t trees)
      : left_(capacities),
        routes_(capacities.vertices() * capacities.vertices()),
        workers_(workers),
        trees_(trees),
        needed_(trees * static_cast<std::int64_t>(workers)) {
    for (std::size_t from = 0; from < left_.vertices(); ++from) {
      for (std::size_t to = 0; to < left_.vertices(); ++to) {
        if (left_(from, to) > 0) routes(from, to) = {{{}, left_(from, to)}};
      }
    }
  }

  Result<Overlay> run() {
    for (std::size_t at = left_.vertices(); at-- > workers_;) {
      // A link there and back is of no use, so it goes last.
      split(at, false);
      split(at, true);
      for (std::size_t other = 0; other < left_.vertices(); ++other) {
        if (left_(at, other) == 0 && left_(other, at) == 0) continue;
        return Error{Status::kInternal,
                     fmt::format("ForestColl: links of switch {} are left over", at)};
      }
    }
    Overlay overlay(workers_);
    for (std::size_t from = 0; from < workers_; ++from) {
      for (std::size_t to = 0; to < workers_; ++to) {
        overlay.capacities(from, to) = left_(from, to);
        overlay.routes(from, to) = std::move(routes(from, to));
        for (Route& route : overlay.routes(from, to)) shorten(route.via);
      }
    }
    if (!is_sufficient(overlay.capacities)) {
      return Error{Status::kInternal, "ForestColl: a worker has lost bandwidth with the switches"};
    }
    return overlay;
  }

 private:
  std::vector<Route>& routes(std::size_t from, std::size_t to) {
    return routes_[from * left_.vertices() + to];
  }

  // Once a pair of links cannot be split further, no later step changes that. So each pair has one
  // turn.
  void split(std::size_t at, bool back) {
    for (std::size_t to = 0; to < left_.vertices(); ++to) {
      for (std::size_t from = 0; from < left_.vertices() && left_(at, to) > 0; ++from) {
        if (left_(from, at) == 0 || (from == to) != back) continue;
        const std::int64_t most = most_of(from, at, to);
        if (most > 0) join(from, at, to, most);
      }
    }
  }

  // Returns how much of both links may become a link from `from` to `to`. Two kinds of cuts become
  // smaller by that: those that part {source, from, to} from {at, a worker}, and those that part
  // {source, at} from {from, to, a worker}. Both must keep `needed_`.
  std::int64_t most_of(std::size_t from, std::size_t at, std::size_t to) const {
    std::int64_t most = std::min(left_(from, at), left_(at, to));
    const std::size_t source = left_.vertices();
    MaxFlow into = with_source();
    into.add(from, source, MaxFlow::kUnlimited);
    if (from != to) into.add(from, to, MaxFlow::kUnlimited);
    most = least_spare(into, from, at, {from, to}, most);
    if (most <= 0) return 0;
    MaxFlow out = with_source();
    out.add(at, source, MaxFlow::kUnlimited);
    if (from != to) out.add(from, to, MaxFlow::kUnlimited);
    if (from >= workers_ && to >= workers_) return least_spare(out, at, to, {}, most);
    // One of them is a worker itself, and with a further worker no cut is smaller.
    return std::min(most, out.run(at, to, needed_ + most) - needed_);
  }

  MaxFlow with_source() const {
    MaxFlow flow(left_, 1);
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      flow.add(left_.vertices(), worker, trees_);
    }
    return flow;
  }

  // Returns by how much each flow that ends at `sink` or at a worker is above `needed_`, but at
  // most `most`. Workers that are in `not_these` do not count.
  std::int64_t least_spare(MaxFlow& flow, std::size_t source, std::size_t sink,
                           std::initializer_list<std::size_t> not_these, std::int64_t most) const {
    // What the sink receives alone, each further end only adds to.
    const std::int64_t common = flow.run(source, sink, needed_ + most);
    for (std::size_t worker = 0; worker < workers_ && common < needed_ + most && most > 0;
         ++worker) {
      if (std::find(not_these.begin(), not_these.end(), worker) != not_these.end()) continue;
      MaxFlow with_worker = flow;
      with_worker.add(worker, sink, MaxFlow::kUnlimited);
      const std::int64_t all = common + with_worker.run(source, sink, needed_ + most - common);
      most = std::min(most, all - needed_);
    }
    return most;
  }

  void join(std::size_t from, std::size_t at, std::size_t to, std::int64_t capacity) {
    left_(from, at) -= capacity;
    left_(at, to) -= capacity;
    std::vector<Route> first = take(routes(from, at), capacity);
    std::vector<Route> second = take(routes(at, to), capacity);
    if (from == to) return;
    left_(from, to) += capacity;
    for (std::size_t i = 0, j = 0; i < first.size() && j < second.size();) {
      Route whole{first[i].via, std::min(first[i].capacity, second[j].capacity)};
      whole.via.push_back(static_cast<std::uint32_t>(at));
      whole.via.insert(whole.via.end(), second[j].via.begin(), second[j].via.end());
      if ((first[i].capacity -= whole.capacity) == 0) ++i;
      if ((second[j].capacity -= whole.capacity) == 0) ++j;
      routes(from, to).push_back(std::move(whole));
    }
  }

  bool is_sufficient(const Capacities& overlay) const {
    MaxFlow flow(overlay, 1);
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      flow.add(workers_, worker, trees_);
    }
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      MaxFlow one = flow;
      if (one.run(workers_, worker, needed_) < needed_) return false;
    }
    return true;
  }

  Capacities left_;
  std::vector<std::vector<Route>> routes_;  // by (from, to)
  std::size_t workers_;
  std::int64_t trees_;
  std::int64_t needed_;
};

}  // namespace

std::vector<Route> take(std::vector<Route>& routes, std::int64_t capacity) {
  std::vector<Route> taken;
  while (capacity > 0) {
    Route& last = routes.back();
    taken.push_back({last.via, std::min(capacity, last.capacity)});
    capacity -= taken.back().capacity;
    if ((last.capacity -= taken.back().capacity) == 0) routes.pop_back();
  }
  return taken;
}

Result<Overlay> split_switches(const Capacities& capacities, std::size_t workers,
                               std::int64_t trees) {
  return Splitter(capacities, workers, trees).run();
}

}  // namespace tally::plan::forestcoll
