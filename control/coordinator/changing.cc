// How the plans of running jobs change: when, by which versions, and what ranks are told.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/coordinator/coordinator.h"

namespace tally::control {
namespace {

bool same(const std::vector<PlanNode>& one, const std::vector<PlanNode>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const PlanNode& a, const PlanNode& b) {
                      return a.node == b.node && a.trees == b.trees && a.rails == b.rails &&
                             a.vertices == b.vertices && a.below == b.below && a.above == b.above &&
                             a.stands_in_for == b.stands_in_for;
                    });
}

}  // namespace

// A job's name stands for it. What is next is not it yet, and what is leaving not any more.
bool Coordinator::is_alive(const Course& course) const {
  return course.stage == Stage::kGathering || course.stage == Stage::kPlacing ||
         course.stage == Stage::kRunning;
}

bool Coordinator::all_listen(const Course& course) const {
  return std::all_of(course.by_rank.begin(), course.by_rank.end(),
                     [this](Ticket ticket) { return listening_.contains(ticket); });
}

void Coordinator::listen(Ticket ticket) {
  if (tickets_.contains(ticket)) listening_.insert(ticket);
}

void Coordinator::replan(const std::string& job) {
  for (auto& [epoch, course] : courses_) {
    if (!is_alive(course)) continue;
    if (!job.empty() && store_.jobs().at(epoch).name != job) continue;
    want(course, Wanted::kPlanInForce);
  }
}

void Coordinator::want(Course& course, Wanted wanted) {
  course.wanted = std::max(course.wanted, wanted);
  course.trouble.clear();
}

// -- Versions --------------------------------------------------------------------------------

// One after the other: what is wanted while a job changes comes afterwards.
void Coordinator::begin_changes(Nanos now) {
  if (calm_ <= now) {
    calm_ = kNoDeadline;
    renew_in_force();
  }
  std::vector<std::uint32_t> ready, changing;
  for (auto& [epoch, course] : courses_) {
    if (course.next == 0) {
      const bool may = course.stage == Stage::kRunning && course.wanted != Wanted::kNothing &&
                       all_listen(course);
      // Its last version is let go of first.
      const std::uint32_t before = store_.jobs().at(epoch).follows;
      const auto old = courses_.find(before);
      if (may && (old == courses_.end() || old->second.stage == Stage::kOver)) {
        ready.push_back(epoch);
      }
      continue;
    }
    if (!course.change && courses_.at(course.next).unconfirmed.empty()) {
      course.change.emplace(static_cast<std::uint32_t>(course.by_rank.size()), now);
    }
    if (course.change) course.change->tick(now);
    changing.push_back(epoch);
  }
  for (const std::uint32_t epoch : changing) settle_change(epoch);
  for (const std::uint32_t epoch : ready) begin_change(epoch, now);
}

void Coordinator::begin_change(std::uint32_t epoch, Nanos now) {
  const auto found = courses_.find(epoch);
  if (found == courses_.end() || found->second.stage != Stage::kRunning) return;
  Course& course = found->second;
  JobRecord next = store_.jobs().at(epoch);
  auto plan = plans_.find(next.name);
  if (course.wanted == Wanted::kOwnPlan) plan = next.made_by->closed_form ? nullptr : next.made_by;
  course.wanted = Wanted::kNothing;
  auto layout = lay_out_job(next, plan.get());
  if (!layout) {
    course.trouble = fmt::format("{}; it keeps the plan that it has", layout.error().message);
    return;
  }
  if (layout->plan == next.plan && layout->slots == next.slots && same(layout->nodes, next.nodes)) {
    note_plan(next, plan);
    return store_.put(next);
  }
  next.follows = epoch;
  next.epoch = course.next = store_.next_epoch();
  give_plan(next, plan, std::move(layout).value());
  store_.put(next);
  Course& next_course = courses_[next.epoch];
  next_course.by_rank.assign(next.ranks, 0);
  next_course.hosts = course.hosts;
  ask_nodes(next, next_course, Stage::kNext, now);
}

// Says what there is to say, and does what its stage brings.
void Coordinator::settle_change(std::uint32_t epoch) {
  const auto found = courses_.find(epoch);
  if (found == courses_.end() || !found->second.change) return;
  Course& course = found->second;
  const std::uint32_t next = course.next;
  for (const Change::Saying& one : course.change->take()) {
    if (course.by_rank[one.rank] == 0) continue;
    Telling telling{course.by_rank[one.rank], one.rank, one.word, {}, {}, {}};
    if (one.word == Change::Word::kPrepare) telling.version = store_.jobs().at(next);
    telling.version.epoch = next;
    if (one.word == Change::Word::kDecided) telling.rounds = course.change->rounds();
    if (one.word == Change::Word::kCalledOff) telling.why = course.change->why_called_off();
    tellings_.push_back(std::move(telling));
  }
  const Change::Stage stage = course.change->stage();
  if (stage == Change::Stage::kMoving && course.stage == Stage::kRunning) {
    Course& running = courses_[next];
    running.stage = Stage::kRunning;
    running.by_rank = course.by_rank;
    running.wanted = std::exchange(course.wanted, Wanted::kNothing);
    for (const Ticket ticket : running.by_rank) {
      if (ticket != 0) tickets_[ticket] = next;
    }
    course.stage = Stage::kLeaving;
  } else if (stage == Change::Stage::kOver) {
    course.change.reset();
    end(epoch, refused("its job has another version"));
    forget_if_done(epoch);
  } else if (stage == Change::Stage::kCalledOff) {
    const std::string why = course.change->why_called_off();
    course.trouble = why;
    course.change.reset();
    course.next = 0;
    end(next, refused(why));
    forget_if_done(next);
  }
}

// The next version cannot be, or, while it is let be, is at an end. The one before goes on.
void Coordinator::fail_next(std::uint32_t epoch, const std::string& why) {
  const std::uint32_t before = store_.jobs().at(epoch).follows;
  const auto found = courses_.find(before);
  if (found != courses_.end() && found->second.next == epoch) {
    Course& course = found->second;
    if (course.change) {
      course.change->call_off(why);
      return settle_change(before);
    }
    course.next = 0;
    course.trouble = why;
  }
  end(epoch, refused(why));
  forget_if_done(epoch);
}

// A job is over in all its versions.
void Coordinator::end_other_versions(std::uint32_t epoch, const Error& why) {
  Course& course = courses_[epoch];
  if (course.stage == Stage::kRunning && course.next != 0) fail_next(course.next, why.message);
  const std::uint32_t before = store_.jobs().at(epoch).follows;
  const auto old = courses_.find(before);
  if (course.stage == Stage::kRunning && old != courses_.end() && old->second.next == epoch) {
    old->second.change.reset();
    old->second.next = 0;
    end(before, why);
    forget_if_done(before);
  }
}

// -- Ranks -----------------------------------------------------------------------------------

// The epoch of the version that the rank's job changes from; 0: it does not change to that one.
std::uint32_t Coordinator::changing(Ticket ticket, std::uint32_t epoch, std::uint32_t& rank) const {
  const auto version = store_.jobs().find(epoch);
  if (ticket == 0 || version == store_.jobs().end()) return 0;
  const std::uint32_t before = version->second.follows;
  const auto found = courses_.find(before);
  if (found == courses_.end() || found->second.next != epoch || !found->second.change) return 0;
  const auto& by_rank = found->second.by_rank;
  const auto place = std::find(by_rank.begin(), by_rank.end(), ticket);
  rank = static_cast<std::uint32_t>(place - by_rank.begin());
  return place == by_rank.end() ? 0 : before;
}

void Coordinator::say(Ticket ticket, std::uint32_t epoch, Change::Report report,
                      const Rounds& rounds) {
  std::uint32_t rank = 0;
  const std::uint32_t before = changing(ticket, epoch, rank);
  if (before == 0) return;  // it crossed the end of the change
  courses_[before].change->report(rank, report, rounds);
  settle_change(before);
}

void Coordinator::cannot(Ticket ticket, std::uint32_t epoch, const std::string& why) {
  std::uint32_t rank = 0;
  const std::uint32_t before = changing(ticket, epoch, rank);
  if (before == 0) return;
  courses_[before].change->call_off(fmt::format("rank {}: {}", rank, why));
  settle_change(before);
}

// In its own version and in the one before, where there is one.
void Coordinator::lose_rank(std::uint32_t epoch, Ticket ticket) {
  for (const std::uint32_t each : {store_.jobs().at(epoch).follows, epoch}) {
    const auto found = courses_.find(each);
    if (found == courses_.end()) continue;
    Course& course = found->second;
    const auto place = std::find(course.by_rank.begin(), course.by_rank.end(), ticket);
    if (place == course.by_rank.end()) continue;
    const auto rank = static_cast<std::uint32_t>(place - course.by_rank.begin());
    *place = 0;
    if (!course.change) continue;
    course.change->lost(rank);
    settle_change(each);
  }
}

// -- Drain -----------------------------------------------------------------------------------

Outcome Coordinator::drain(const std::string& node, bool undo, Nanos now) {
  const auto& members = store_.members();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& one) { return one.second.name == node; });
  if (found == members.end()) {
    return refused(fmt::format("there is no member \"{}\": tallyctl nodes shows who is", node));
  }
  const bool last = std::all_of(members.begin(), members.end(), [&](const auto& other) {
    return other.first == found->first || other.second.draining;
  });
  if (!undo && last) {
    return refused(
        fmt::format("\"{}\" is the last node that can have trees: start another that joins, then "
                    "drain this one; or end the jobs and stop it",
                    node));
  }
  Member member = found->second;
  const bool changed = std::exchange(member.draining, !undo) == undo;
  store_.put(found->first, member);
  if (undo && changed) calm_ = now;
  for (auto& [epoch, course] : courses_) {
    if (!undo && is_alive(course)) want(course, Wanted::kOwnPlan);
  }
  return Unit{};
}

Coordinator::Drained::Waiting Coordinator::waiting_for(std::uint32_t epoch) const {
  const Course& course = courses_.at(epoch);
  const JobRecord& job = store_.jobs().at(epoch);
  Drained::Waiting waiting{job.name, "", false};
  if (course.change) {
    static constexpr const char* kWhat[] = {"make ready for its new plan", "know of its new plan",
                                            "end what goes by its old plan",
                                            "close their sessions of its old plan"};
    const auto stage = static_cast<std::size_t>(course.change->stage());
    waiting.what = fmt::format("waits for {} to {}", name_ranks(course.change->waits_for()),
                               kWhat[std::min<std::size_t>(stage, 3)]);
  } else if (course.next != 0) {
    waiting.what =
        fmt::format("waits for {} to take its new trees",
                    names(store_.jobs().at(course.next), courses_.at(course.next).unconfirmed));
  } else if (!course.trouble.empty()) {
    waiting.what = course.trouble;
    waiting.gave_up = course.wanted == Wanted::kNothing;
  } else if (course.stage == Stage::kRunning && !all_listen(course)) {
    std::vector<std::uint32_t> deaf;
    for (std::uint32_t rank = 0; rank < course.by_rank.size(); ++rank) {
      if (!listening_.contains(course.by_rank[rank])) deaf.push_back(rank);
    }
    waiting.what = fmt::format(
        "{} cannot be told of a new plan: of an older release, or without a "
        "connection to the coordinator; end the job, or wait until it ends",
        name_ranks(deaf));
  } else {
    waiting.what = "is about to change";
  }
  return waiting;
}

Result<Coordinator::Drained> Coordinator::drained(const std::string& node) const {
  for (const auto& [id, member] : store_.members()) {
    if (member.name != node) continue;
    std::set<std::uint32_t> epochs;
    for (const auto& [epoch, course] : courses_) {
      if (course.stage == Stage::kOver || !course.nodes.contains(id)) continue;
      epochs.insert(course.stage == Stage::kNext ? store_.jobs().at(epoch).follows : epoch);
    }
    Drained drained{id, member.draining, {}};
    for (const std::uint32_t epoch : epochs) drained.waiting.push_back(waiting_for(epoch));
    return drained;
  }
  return refused(fmt::format("there is no member \"{}\": tallyctl nodes shows who is", node));
}

}  // namespace tally::control
