// What a trace's ranks do, and what is seen of it (replay.h).
#include <fmt/format.h>

#include <utility>

#include "tests/model/replay.h"

namespace tally::traces {

using nlohmann::json;

void Replay::apply_to_rank(std::size_t at) {
  const Line& line = *input_;
  Rank& rank = ranks_[line.rank()];
  TracedRank& traced = *rank.traced;
  if (line.event == "post") {
    if (traced.post(line.number("round") - 1) != line.number("round") - 1) {
      throw Disagreement("the session counts other rounds");
    }
  } else if (line.event == "cancel") {
    if (!traced.cancel()) throw Disagreement("the session does not cancel the operation");
  } else if (line.event == "take" || line.event == "done_again") {
    rank.leaves_completions = false;
    take(at);
  } else if (line.event == "end") {
    take_end(line);
  } else if (line.event == "news") {
    send_news(line);
  } else if (line.event == "break") {
    break_session(at);
  } else if (line.event == "interrupt" || line.event == "end_session") {
    see_loss(line.rank());
  } else if (line.event == "cannot") {
    traced.state(line.number("epoch"), 0).lose();
  } else if (line.event == "leave_old") {
    traced.state(line.number("version"), 0).lose();
  } else if (line.event == "alone") {
    rank.alone = true;
    traced.channel().close();
  } else if (line.event == "crash") {
    traced.die();
  } else {
    throw BadTrace("\"" + line.text + "\" is no input that a replay knows");
  }
}

void Replay::break_session(std::size_t at) {
  const Line& next = trace_.lines.at(at + 1);
  const bool refuses = next.event == "cannot";
  const std::uint32_t version = next.number(refuses ? "epoch" : "version");
  ranks_[next.rank()].traced->state(version, 0).lose();
}

// The rank sees that a node is lost, or that another rank has left: by a verdict of a node where
// there is one.
void Replay::see_loss(std::uint16_t number) {
  Rank& rank = ranks_[number];
  for (Delivery& delivery : rank.kept_back) {
    rank.traced->state(rank.now, 0).arrived.push_back(std::move(delivery));
  }
  const bool ends = !rank.kept_back.empty();
  rank.leaves_completions = ends;
  rank.kept_back.clear();
  for (std::uint32_t part = 0; part < trace_.parts(); ++part) {
    if (!layout_.is_lost(rank.now, part)) continue;
    return rank.traced->state(rank.now, part).lose();
  }
  TracedShard& shard = *shards_.at(rank.now).front();
  bool left = false;
  for (std::uint16_t other = 0; other < trace_.ranks(); ++other) {
    if (other == number || !ranks_[other].traced->has_left(rank.now)) continue;
    if (trace_.ranks() == 2 && !rank.alone && !ends) shard.lose(other);
    left = true;
  }
  if (auto verdict = shard.take_loss(number)) {
    return rank.traced->state(rank.now, 0).arrived.push_back(std::move(*verdict));
  }
  if (!left && rank.old != 0) {
    for (std::uint32_t part = 0; part < trace_.parts(); ++part) {
      if (layout_.is_lost(rank.old, part)) return rank.traced->state(rank.old, part).lose();
    }
  }
  rank.traced->state(rank.now, 0).lose();
}

// Whether the rank is interrupted, because it sees a loss, between the end of the operation and the
// time when the application takes its completion.
bool Replay::is_interrupted_before_end(std::size_t at) const {
  const std::uint16_t rank = trace_.lines[at].rank();
  for (std::size_t next = at + 1; next < trace_.lines.size(); ++next) {
    const Line& line = trace_.lines[next];
    if (!line.is_of(rank) || line.event == "hear") continue;
    return line.event == "interrupt";
  }
  return false;
}

void Replay::take(std::size_t at) {
  const Line& line = trace_.lines[at];
  Rank& rank = ranks_[line.rank()];
  const std::uint32_t round = line.number("round") - 1;
  std::vector<std::uint32_t> versions = {rank.now, rank.old};
  if (line.event == "take") versions = {line.number("version")};
  const std::uint32_t part = line.event == "take" ? line.number("part") : 0;
  for (const std::uint32_t version : versions) {
    if (version == 0) continue;
    auto delivery = shards_.at(version).at(part)->take(line.rank(), round);
    if (!delivery) continue;
    const bool waits = trace_.eager() && line.event == "take" && is_interrupted_before_end(at) &&
                       version == rank.now;
    auto& to = waits ? rank.kept_back : rank.traced->state(version, part).arrived;
    return to.push_back(std::move(*delivery));
  }
  throw Disagreement("the shard has sent no completion");
}

void Replay::take_end(const Line& line) {
  Rank& rank = ranks_[line.rank()];
  rank.leaves_completions = false;
  rank.traced->take_completions();
  const auto end = rank.traced->take_end();
  if (!end) throw Disagreement("the application has no completion");
  note(fmt::format("end rank={} round={} ok={:d}", line.rank(), end->round + 1, end->ok));
}

// -- what is seen --------------------------------------------------------------------------------

void Replay::look(std::uint16_t number) {
  Rank& rank = ranks_[number];
  TracedRank& traced = *rank.traced;
  const auto open = traced.open_states();
  const bool was_interrupted = rank.interrupted;
  traced.look_around();
  if (!rank.leaves_completions) traced.take_completions();
  traced.look_around();  // an operation that has ended may have been the last of the old version
  look_at_reports(number);
  if (traced.is_over() || (rank.interrupted && !was_interrupted)) require_fences(number, open);
  for (const auto& state : traced.states()) {
    for (const wire::Notice& notice : std::exchange(state->sent, {})) {
      if (notice.part != 0) continue;
      note(fmt::format("place rank={} round={} version={}", number, notice.round + 1,
                       state->version));
    }
  }
  if (traced.is_over()) {
    if (!rank.over) note(fmt::format("end_session rank={}", number));
    rank.over = true;
    return;
  }
  look_at_versions(number);
  while (!trace_.eager()) {
    const auto end = traced.take_end();
    if (!end) break;
    note(fmt::format("end rank={} round={} ok={:d}", number, end->round + 1, end->ok));
  }
}

// After a loss, no node may reach the rank's memory: neither those that are lost nor the others.
void Replay::require_fences(std::uint16_t rank, const States& open) {
  for (const auto& state : open) {
    if (state->fenced) continue;
    throw Disagreement(fmt::format("rank {} has not fenced off part {} of version {}", rank,
                                   state->part, state->version));
  }
}

void Replay::look_at_reports(std::uint16_t number) {
  Rank& rank = ranks_[number];
  for (json& report : rank.traced->channel().read()) {
    const std::string kind = report.at("said");
    const std::uint32_t epoch = report.at("epoch");
    if (kind == "moved") {
      rank.moved.push_back(std::move(report));
      continue;
    }
    if (kind == "lost") {
      rank.interrupted = true;
      rank.old = 0;
      rank.moved.clear();
      note(fmt::format("interrupt rank={} version={}", number, epoch));
    } else if (kind == "cannot" && input_->event != "news") {
      note(fmt::format("cannot rank={} epoch={}", number, epoch));
    } else if (kind == "ready") {
      const json rounds = report.value("rounds", json::array());
      const json failed = report.value("failed", json::array());
      note(fmt::format("ready rank={} epoch={} next={} failure={} kept={:d}", number, epoch,
                       rounds.empty() ? 1 : rounds[0][1].get<std::uint32_t>() + 1,
                       failed.empty() ? 0 : failed[0][3].get<std::uint32_t>() + 1,
                       !report.value("kept", json::array()).empty()));
    }
    rank.reports.push_back(std::move(report));
  }
}

void Replay::look_at_versions(std::uint16_t number) {
  Rank& rank = ranks_[number];
  const std::uint32_t now = rank.traced->session().book_config().epoch;
  if (now != rank.now) {
    const bool repaired = std::exchange(rank.interrupted, false);
    note(fmt::format("{} rank={} version={}", repaired ? "repaired" : "go", number, now));
    rank.old = repaired ? 0 : rank.now;
    rank.now = now;
  }
  if (rank.old == 0 || rank.traced->state(rank.old, 0).is_open()) return;
  note(fmt::format("leave_old rank={} version={}", number, std::exchange(rank.old, 0)));
}

}  // namespace tally::traces
