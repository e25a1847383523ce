#include "control/coordinator/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/same_token.h"

namespace tally::control {
namespace {

// Of what is over and that nodes have yet to let go of: who forms jobs and goes fills no memory.
constexpr std::size_t kMostPerPlace = 4;

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, Store& store)
    : options_(std::move(options)), store_(store), plans_(store) {
  take_over();
}

// -- Nodes -----------------------------------------------------------------------------------

Result<NodeId> Coordinator::join(const Member& member, std::string_view token, std::uint32_t epoch,
                                 Nanos now) {
  if (!same_token(options_.token, token)) {
    return refused(
        fmt::format("node \"{}\": wrong cluster.token: all nodes are to have the "
                    "same in their configuration",
                    member.name));
  }
  const auto& members = store_.members();
  const auto same = std::find_if(members.begin(), members.end(), [&](const auto& other) {
    return other.second.name == member.name;
  });
  if (same != members.end()) {
    return refused(
        fmt::format("node \"{}\" is a member already, at {}: give each node a name of "
                    "its own (cluster.name)",
                    member.name, same->second.tcp.empty() ? same->second.local : same->second.tcp));
  }
  if (members.size() >= kMaxMembers) {
    return refused(fmt::format("node \"{}\": there are {} members, and no room for more",
                               member.name, members.size()));
  }
  const NodeId node = store_.next_node();
  Member joined = with_measured(member);
  joined.draining = is_drained_when_it_comes(member.name);
  store_.put(node, joined);
  erase_departed(member.name);
  store_.heard_of_epoch(epoch);
  listeners_[node].news.node = node;
  listeners_[node].until = now + kMostSilence;
  if (!courses_.empty()) calm_ = now + kCalm;
  return node;
}

void Coordinator::leave(NodeId node, std::string_view why) {
  const auto found = store_.members().find(node);
  if (found == store_.members().end()) return;
  const Error error{Status::kUnavailable,
                    fmt::format("node \"{}\" has left: {}", found->second.name, why)};
  Member departed = found->second;
  departed.draining = false;  // a drained node is ended to be started again, and then used
  remember_departed(node, departed);
  store_.erase(node);
  listeners_.erase(node);
  std::vector<std::uint32_t> epochs;
  // Before any of them ends: what ends tells the nodes that it has, in its other versions too.
  for (auto& [epoch, course] : courses_) {
    course.unconfirmed.erase(node);
    if (course.nodes.erase(node) > 0) epochs.push_back(epoch);
  }
  for (const std::uint32_t epoch : epochs) gone_from(epoch, node, error);
}

void Coordinator::listen(NodeId node, Nanos until) {
  const auto found = listeners_.find(node);
  if (found == listeners_.end()) return;
  found->second.listens = true;
  found->second.until = until;
}

void Coordinator::set_rails(NodeId node, std::vector<Rail> rails, Nanos now) {
  const auto found = store_.members().find(node);
  if (found == store_.members().end() || found->second.rails == rails) return;
  Member member = found->second;
  member.rails = std::move(rails);
  store_.put(node, member);
  if (!courses_.empty()) calm_ = now + kCalm;
}

Outcome Coordinator::speaks_for(NodeId node, std::string_view token) const {
  if (!same_token(options_.token, token)) return refused("wrong cluster.token");
  if (store_.members().contains(node)) return Unit{};
  return refused(fmt::format("there is no member {}: cluster.join first", node));
}

void Coordinator::report(NodeId node, const Report& report) {
  for (const auto& [epoch, job] : store_.jobs()) {
    const bool here = std::any_of(job.nodes.begin(), job.nodes.end(), [&](const PlanNode& one) {
      return one.node == node && one.placement == report.placement;
    });
    if (!here || !courses_[epoch].nodes.contains(node)) continue;
    const std::string name = store_.members().at(node).name;
    if (report.over) {
      gone_from(epoch, node, refused(fmt::format("node \"{}\" dropped it", name)));
    } else if (!report.error.empty()) {
      gone_from(epoch, node, refused(fmt::format("node \"{}\": {}", name, report.error)));
    } else {
      confirmed(epoch, node);
    }
    return;
  }
}

void Coordinator::answer(Ticket ticket, Result<JobRecord> outcome, std::uint32_t rank) {
  answers_.push_back({ticket, std::move(outcome), rank});
}

void Coordinator::confirmed(std::uint32_t epoch, NodeId node) {
  Course& course = courses_[epoch];
  course.unconfirmed.erase(node);
  if (course.stage != Stage::kPlacing || !course.unconfirmed.empty()) return;
  course.stage = Stage::kRunning;
  for (std::uint32_t rank = 0; rank < course.by_rank.size(); ++rank) {
    const Ticket ticket = course.by_rank[rank];
    if (!course.waiting.contains(ticket)) continue;
    answer(ticket, store_.jobs().at(epoch), rank);
  }
  course.waiting.clear();
}

// The first node to go ends it for all; but a version that is left is let go of by and by.
void Coordinator::gone_from(std::uint32_t epoch, NodeId node, const Error& why) {
  if (!courses_.contains(epoch)) return;  // ended with another version of its job
  Course& course = courses_[epoch];
  if (course.stage == Stage::kLeaving && store_.members().contains(node)) {
    course.released.insert(node);
    return;
  }
  course.nodes.erase(node);
  course.unconfirmed.erase(node);
  if (course.stage == Stage::kLeaving) return;
  if (course.stage == Stage::kNext) return fail_next(epoch, why.message);
  end(epoch, why);
  forget_if_done(epoch);
}

void Coordinator::end(std::uint32_t epoch, const Error& why) {
  Course& course = courses_[epoch];
  if (course.stage == Stage::kOver) return;
  end_other_versions(epoch, why);
  course.stage = Stage::kOver;
  for (const NodeId node : course.released) course.nodes.erase(node);
  const JobRecord& job = store_.jobs().at(epoch);
  for (const Ticket ticket : course.waiting) {
    tickets_.erase(ticket);
    answer(ticket, Error{why.status, fmt::format("job \"{}\": {}", job.name, why.message)}, 0);
  }
  course.waiting.clear();
  for (const PlanNode& one : job.nodes) {
    if (course.nodes.contains(one.node)) withdraw_from(one.node, one.placement, course);
  }
}

// What the node has not heard of yet, it need not hear of.
void Coordinator::withdraw_from(NodeId node, std::uint64_t placement, Course& course) {
  News& news = listeners_[node].news;
  const auto unsaid = std::erase_if(
      news.placements, [placement](const Placement& one) { return one.id == placement; });
  if (unsaid > 0) {
    course.nodes.erase(node);
  } else {
    news.withdraw.push_back(placement);
  }
}

void Coordinator::forget_if_done(std::uint32_t epoch) {
  const Course& course = courses_[epoch];
  if (course.stage != Stage::kOver || !course.nodes.empty()) return;
  std::erase_if(tickets_, [epoch](const auto& ticket) { return ticket.second == epoch; });
  courses_.erase(epoch);
  store_.erase_job(epoch);
}

std::size_t Coordinator::jobs_at(NodeId node) const {
  return static_cast<std::size_t>(
      std::count_if(courses_.begin(), courses_.end(), [node](const auto& one) {
        return one.second.stage != Stage::kOver && one.second.nodes.contains(node);
      }));
}

std::size_t Coordinator::trees_at(NodeId node) const {
  std::size_t trees = 0;
  for (const auto& [epoch, course] : courses_) {
    if (course.stage == Stage::kOver) continue;
    for (const PlanNode& one : store_.jobs().at(epoch).nodes) {
      if (one.node == node) trees += one.trees.size();
    }
  }
  return trees;
}

std::set<std::string> Coordinator::stood_in_for(NodeId node) const {
  std::set<std::string> names;
  for (const auto& [epoch, course] : courses_) {
    if (course.stage == Stage::kOver || course.stage == Stage::kLeaving) continue;
    for (const PlanNode& one : store_.jobs().at(epoch).nodes) {
      if (one.node == node) names.insert(one.stands_in_for.begin(), one.stands_in_for.end());
    }
  }
  return names;
}

// -- Ranks -----------------------------------------------------------------------------------

const ConfiguredJob* Coordinator::configured(const std::string& name) const {
  const auto found = std::find_if(options_.jobs.begin(), options_.jobs.end(),
                                  [&](const ConfiguredJob& job) { return job.name == name; });
  return found == options_.jobs.end() ? nullptr : &*found;
}

const JobRecord* Coordinator::current(const std::string& name) const {
  for (const auto& [epoch, job] : store_.jobs()) {
    if (job.name == name && is_alive(courses_.at(epoch))) return &job;
  }
  return nullptr;
}

void Coordinator::open(Ticket ticket, const Opening& opening, Nanos now) {
  if (store_.members().empty()) return answer(ticket, JobRecord{}, 0);
  const JobRecord* job = current(opening.job);
  auto may = may_open(opening, job);
  if (may && job == nullptr) may = may_form(opening);
  if (!may) return answer(ticket, may.error(), 0);
  const std::uint32_t epoch = job != nullptr ? job->epoch : form(opening);
  Course& course = courses_[epoch];
  course.by_rank[opening.rank] = ticket;
  course.hosts[opening.rank] = opening.host;
  tickets_[ticket] = epoch;
  if (course.stage == Stage::kRunning) {
    return answer(ticket, store_.jobs().at(epoch), opening.rank);
  }
  course.waiting.insert(ticket);
  place_gathered(now);
}

Outcome Coordinator::may_open(const Opening& opening, const JobRecord* job) const {
  const ConfiguredJob* configuration = configured(opening.job);
  const std::string* token = job != nullptr             ? &job->token
                             : configuration != nullptr ? &configuration->token
                                                        : nullptr;
  if (token != nullptr && !same_token(*token, opening.token)) {
    return refused(fmt::format("job \"{}\": wrong token", opening.job));
  }
  if (job == nullptr) return Unit{};
  const Course& course = courses_.at(job->epoch);
  // Who asks again will find that it is over, and forms it anew.
  const Status status = course.deserted ? Status::kStaleEpoch : Status::kRefused;
  if (opening.ranks != job->ranks) {
    return Error{status, fmt::format("job \"{}\" has {} ranks, rank {} says {}", opening.job,
                                     job->ranks, opening.rank, opening.ranks)};
  }
  if (course.by_rank[opening.rank] != 0) {
    return Error{status, fmt::format("job \"{}\": rank {} is taken; is another run of this job "
                                     "still alive?",
                                     opening.job, opening.rank)};
  }
  return Unit{};
}

Outcome Coordinator::may_form(const Opening& opening) const {
  const ConfiguredJob* configuration = configured(opening.job);
  if (configuration == nullptr && !options_.open_jobs) {
    return refused(
        fmt::format("job \"{}\" is not configured at the coordinator, and open_jobs is false: add "
                    "it to the configuration there",
                    opening.job));
  }
  if (configuration != nullptr && configuration->ranks != 0 &&
      configuration->ranks != opening.ranks) {
    return refused(fmt::format("job \"{}\" is configured with {} ranks, rank {} says {}",
                               opening.job, configuration->ranks, opening.rank, opening.ranks));
  }
  if (opening.ranks > options_.max_ranks) {
    return refused(fmt::format("job \"{}\": {} ranks, max_ranks is {}", opening.job, opening.ranks,
                               options_.max_ranks));
  }
  const auto running = static_cast<std::size_t>(std::count_if(
      courses_.begin(), courses_.end(), [this](const auto& one) { return is_alive(one.second); }));
  if (running >= options_.max_jobs) {
    return refused(fmt::format("job \"{}\": the coordinator has {} jobs and max_jobs is {}",
                               opening.job, running, options_.max_jobs));
  }
  if (courses_.size() >= kMostPerPlace * options_.max_jobs) {
    return refused(
        fmt::format("job \"{}\": {} jobs are over and their nodes have yet to let go of "
                    "them: look at the nodes' logs",
                    opening.job, courses_.size() - running));
  }
  return Unit{};
}

JobRecord Coordinator::make_record(const Opening& opening) {
  const ConfiguredJob* configuration = configured(opening.job);
  JobRecord job;
  job.name = opening.job;
  job.token = opening.token;
  job.epoch = store_.next_epoch();
  job.ranks = opening.ranks;
  job.weight = configuration != nullptr ? configuration->weight : 1;
  return job;
}

std::uint32_t Coordinator::form(const Opening& opening) {
  const JobRecord made = make_record(opening);
  store_.put(made);
  Course& course = courses_[made.epoch];
  course.by_rank.assign(made.ranks, 0);
  course.hosts.resize(made.ranks);
  return made.epoch;
}

void Coordinator::close(Ticket ticket) {
  listening_.erase(ticket);
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  const std::uint32_t epoch = found->second;
  tickets_.erase(found);
  lose_rank(epoch, ticket);
  Course& course = courses_[epoch];
  course.waiting.erase(ticket);
  const bool begun = course.stage != Stage::kGathering && course.stage != Stage::kPlacing;
  course.deserted |= begun;
  if (begun || !course.waiting.empty()) return;
  end(epoch, refused("nobody waits for it any more"));
  forget_if_done(epoch);
}

// -- What is to be said ----------------------------------------------------------------------

std::string Coordinator::names(const JobRecord& job, const std::set<NodeId>& nodes) const {
  std::string text;
  for (const PlanNode& one : job.nodes) {
    if (!nodes.contains(one.node)) continue;
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", one.member.name);
  }
  return text;
}

Coordinator::Actions Coordinator::act(Nanos now) {
  Actions actions;
  for (const auto& [node, listener] : listeners_) {
    if (!listener.listens && listener.until <= now) actions.lost.push_back(node);
  }
  for (const NodeId node : actions.lost) leave(node, "it has not asked for news for too long");
  std::vector<std::uint32_t> late;
  for (const auto& [epoch, course] : courses_) {
    if (!course.unconfirmed.empty() && course.deadline <= now) late.push_back(epoch);
  }
  for (const std::uint32_t epoch : late) {
    if (!courses_.contains(epoch)) continue;
    Course& course = courses_[epoch];
    const std::string missing = names(store_.jobs().at(epoch), course.unconfirmed);
    const std::string why =
        fmt::format("these nodes have not taken it within {} s: {}: look at their logs",
                    kPlacingPatience / kSecond, missing);
    if (course.stage == Stage::kNext) {
      fail_next(epoch, why);
    } else if (course.stage == Stage::kPlacing) {
      end(epoch, {Status::kUnavailable, why});
      forget_if_done(epoch);
    }
  }
  begin_changes(now);
  for (auto& [node, listener] : listeners_) {
    const bool any = !listener.news.placements.empty() || !listener.news.withdraw.empty();
    if (!listener.listens || (!any && listener.until > now)) continue;
    actions.news.push_back(std::exchange(listener.news, {node, {}, {}}));
    listener.listens = false;
    listener.until = now + kMostSilence;
  }
  actions.answers = std::exchange(answers_, {});
  actions.tellings = std::exchange(tellings_, {});
  return actions;
}

Nanos Coordinator::next_deadline() const {
  Nanos next = calm_;
  for (const auto& [node, listener] : listeners_) next = std::min(next, listener.until);
  for (const auto& [epoch, course] : courses_) {
    const bool placing = course.stage == Stage::kPlacing || course.stage == Stage::kNext;
    if (placing && !course.unconfirmed.empty()) next = std::min(next, course.deadline);
    if (course.change) next = std::min(next, course.change->deadline());
  }
  return next;
}

}  // namespace tally::control
