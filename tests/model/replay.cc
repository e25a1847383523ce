#include "tests/model/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace tally::traces {
namespace {

// Of a trace, and of the coordinator's messages.
const std::map<std::string, std::string> kWordsOfNews = {
    {"PREPARE", "prepare"}, {"REPAIR", "prepare"},        {"DECIDED", "decided"}, {"GO", "go"},
    {"LEAVE", "leave"},     {"CALLED_OFF", "called off"}, {"ENDED", "ended"}};
const std::map<std::string, std::string> kKindsOfReports = {
    {"LOST", "lost"},     {"READY", "ready"}, {"KNOWS", "knows"},
    {"CANNOT", "cannot"}, {"MOVED", "moved"}, {"LEFT", "left"}};
// Events that may be outputs.
const std::set<std::string> kOutputs = {
    "place", "conclude", "end",       "repair",   "decide", "call_off",    "interrupt",
    "ready", "go",       "leave_old", "repaired", "again",  "end_session", "cannot"};

template <typename Events>
std::string list_of(const Events& events) {
  if (events.empty()) return "    nothing\n";
  std::string text;
  for (const std::string& event : events) text += "    " + event + "\n";
  return text;
}

protocol::Partition partition_of(const Trace& trace) {
  return protocol::even_partition(trace.parts(), 1);
}

}  // namespace

Replay::Replay(const Trace& trace, const ReplayServers& servers)
    : trace_(trace),
      servers_(servers),
      layout_(trace.nodes(), trace.parts()),
      coordinator_(trace.ranks(), trace.nodes(), layout_.owners(1)),
      ranks_(trace.ranks()) {
  set_entrance(this);
  make_version(1);
  for (std::uint16_t rank = 0; rank < trace.ranks(); ++rank) {
    ranks_[rank].traced = std::make_unique<TracedRank>(trace, rank);
    ranks_[rank].traced->open();
    look(rank);
  }
}

Replay::~Replay() {
  ranks_.clear();
  set_entrance(nullptr);
}

void Replay::make_version(std::uint32_t epoch) {
  auto& shards = shards_[epoch];
  for (std::uint32_t part = 0; part < trace_.parts(); ++part) {
    const auto memory = [this, epoch, part](std::uint16_t rank, std::uint32_t id) {
      const TracedRank& owner = *ranks_[rank].traced;
      const ConnectionState& state = owner.state(epoch, part);
      if (!state.is_open()) {
        throw Disagreement(fmt::format("rank {} has fenced the shard off", rank));
      }
      for (const auto* region : owner.regions()) {
        if (region->id == id) return region->data();
      }
      throw Disagreement(fmt::format("a tile is in region {} of rank {}", id, rank));
    };
    shards.push_back(
        std::make_unique<TracedShard>(epoch, part, trace_.ranks(), partition_of(trace_), memory));
  }
}

client::JobEntry Replay::enter(std::uint16_t rank, std::uint32_t epoch) {
  TracedRank& entering = *ranks_[rank].traced;
  std::vector<client::SessionNode> nodes;
  for (std::uint32_t part = 0; part < trace_.parts(); ++part) {
    auto state = std::make_shared<ConnectionState>();
    state->version = epoch;
    state->part = part;
    entering.add(state);
    auto connection = std::make_unique<TracedConnection>(rank, *shards_.at(epoch)[part],
                                                         std::move(state), entering.regions());
    auto channel = rpc::RpcChannel::connect(servers_.node_address, monotonic_now() + kSecond);
    if (!channel) throw std::runtime_error(channel.error().message);
    nodes.push_back({std::move(channel).value(), std::move(connection), {part}, {0}});
  }
  client::BookConfig book;
  book.partition = partition_of(trace_);
  book.rank = rank;
  book.ranks = trace_.ranks();
  book.epoch = epoch;
  client::JobEntry entry{book, client::Nodes(std::move(nodes)), {}, 0, nullptr, {}, {}};
  entry.book.shards = entry.nodes.shards_of_trees();
  if (epoch == 1) {
    entry.coordinator.channel = entering.channel().open(servers_.coordinator);
    entry.coordinator.repairs = true;
    entry.coordinator.epoch = epoch;
  }
  return entry;
}

TracedShard& Replay::shard(const Line& line) const {
  return *shards_.at(line.number("version")).at(line.number("part"));
}

// -- the loop ------------------------------------------------------------------------------------

void Replay::run() {
  for (std::size_t first = 0, end = 0; first < trace_.lines.size(); first = end) {
    input_ = &trace_.lines[first];
    seen_.clear();
    try {
      apply(first);
      for (end = first + 1; end < trace_.lines.size() && is_output(end);) ++end;
      compare(first, end);
    } catch (const std::exception& why) {
      throw Disagreement(fmt::format("line {}: {}\n  {}\n  {}\n", first + 2, input_->text,
                                     why.what(), trace_.command()));
    }
  }
}

// Whether the line is an output of input_, when all lines between are. Some events may be inputs,
// too: what the code has done tells which they are.
bool Replay::is_output(std::size_t at) const {
  const Line& line = trace_.lines[at];
  if (!kOutputs.contains(line.event)) return false;
  const auto has_seen = [&](const std::string& event) {
    return std::find(seen_.begin(), seen_.end(), event) != seen_.end();
  };
  const bool is_news = input_->event == "news" && input_->is_of(line.has("rank") ? line.rank() : 0);
  if (line.event == "end") return !trace_.eager();
  if (line.event == "call_off") return has_seen(line.text);
  if (line.event == "interrupt") {
    const bool breaks = input_->event == "break" && input_->is_of(line.rank());
    return breaks || (is_news && input_->word("word") == "REPAIR");
  }
  if (line.event == "cannot") return input_->event == "break" && input_->is_of(line.rank());
  if (line.event == "leave_old") return is_news && input_->word("word") == "LEAVE";
  if (line.event == "end_session") return input_->is_of(line.rank()) && has_seen(line.text);
  return true;
}

// As the code can show it. How a rank does a round again shows in where it places it. What a rank
// has decided shows in the decision that it gets.
std::string Replay::expected(const Line& line) const {
  if (line.event == "again") return {};
  if (line.event == "repaired") {
    return fmt::format("repaired rank={} version={}", line.rank(), line.number("version"));
  }
  if (line.event == "ready" && planned_.contains(line.number("epoch"))) {
    return fmt::format("ready rank={} epoch={} next={} failure=0 kept=0", line.rank(),
                       line.number("epoch"), line.number("next"));
  }
  return line.text;
}

void Replay::compare(std::size_t first, std::size_t end) const {
  std::vector<std::string> expects;
  const bool is_shown = kOutputs.contains(input_->event) || input_->event == "pull";
  for (std::size_t at = is_shown ? first : first + 1; at < end; ++at) {
    const std::string event = expected(trace_.lines[at]);
    if (!event.empty()) expects.push_back(event);
  }
  std::vector<std::string> seen = seen_;
  std::sort(expects.begin(), expects.end());
  std::sort(seen.begin(), seen.end());
  if (expects == seen) return;
  throw Disagreement(
      fmt::format("the trace has:\n{}  the code does:\n{}", list_of(expects), list_of(seen)));
}

void Replay::apply(std::size_t at) {
  const Line& line = *input_;
  if (line.has("rank") && line.rank() >= trace_.ranks()) throw BadTrace("there is no such rank");
  const bool of_rank = line.has("rank") && line.event != "hear" && line.event != "push";
  if (of_rank) {
    apply_to_rank(at);
    if (!ranks_[line.rank()].over || line.event == "crash") look(line.rank());
  } else {
    apply_to_job(line);
  }
  for (std::string& event : coordinator_.take_events()) {
    const Line done = read_line(event);
    if (done.event == "repair") repairing_ = true;
    if (done.event == "go") {
      current_ = done.number("epoch");
      repairing_ = false;
    }
    note(std::move(event));
  }
  if (trace_.eager()) conclude_eager();
}

void Replay::conclude_eager() {
  for (const auto& [version, shards] : shards_) {
    if (has_left(version)) continue;
    while (const auto done = shards.front()->conclude()) {
      note(fmt::format("conclude version={} round={} right={:d}", version, done->first + 1,
                       done->second));
    }
  }
}

// Whether a rank has fenced the version off, or closed it.
bool Replay::has_left(std::uint32_t version) const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [version](const Rank& rank) { return rank.traced->has_left(version); });
}

// -- nodes and coordinator -----------------------------------------------------------------------

void Replay::apply_to_job(const Line& line) {
  if (line.event == "pull") {
    const auto pulled = shard(line).pull();
    if (!pulled) throw Disagreement("the shard has nothing to sum");
    return note(fmt::format("pull version={} part={} round={} right={:d}", line.number("version"),
                            line.number("part"), pulled->first + 1, pulled->second));
  }
  if (line.event == "push") {
    if (!shard(line).push(line.rank())) throw Disagreement("the shard has no result for the rank");
  } else if (line.event == "fail") {
    shard(line).fail(line.number("round") - 1);
  } else if (line.event == "lose") {
    layout_.lose(line.number("node"));
    coordinator_.lose(line.number("node"));
  } else if (line.event == "begin") {
    begin(line);
  } else if (line.event == "call_off") {
    coordinator_.time_out();
  } else if (line.event == "hear") {
    take_report(line);
  } else if (line.event != "stop_coordinator") {
    throw BadTrace("\"" + line.text + "\" is no input that a replay knows");
  }
}

void Replay::begin(const Line& line) {
  const std::uint32_t epoch = line.number("epoch");
  if (!repairing_) planned_.insert(epoch);
  for (const std::uint32_t node : layout_.place(epoch, current_, !repairing_)) {
    coordinator_.join(node);
  }
  make_version(epoch);
  coordinator_.begin(epoch, layout_.owners(epoch));
}

void Replay::take_report(const Line& line) {
  Rank& rank = ranks_[line.rank()];
  const std::string& word = line.word("word");
  if (word == "CLOSED") {
    if (!rank.traced->channel().has_ended() || !rank.reports.empty()) {
      throw Disagreement("the rank has not closed its connection, or has reported more");
    }
    return coordinator_.close(line.rank());
  }
  auto& reports = word == "MOVED" ? rank.moved : rank.reports;
  const std::string& kind = kKindsOfReports.at(word);
  if (reports.empty()) throw Disagreement("the rank has reported nothing");
  const nlohmann::json report = reports.front();
  reports.pop_front();
  if (report.at("said") != kind || report.at("epoch") != line.number("epoch")) {
    throw Disagreement("the rank reports " + report.dump());
  }
  coordinator_.report(line.rank(), report);
}

void Replay::send_news(const Line& line) {
  const auto message = coordinator_.take_message(line.rank());
  if (!message) throw Disagreement("the coordinator has no message for the rank");
  const std::string& word = line.word("word");
  bool same = message->at("change") == kWordsOfNews.at(word);
  same = same && (word == "ENDED" || message->at("epoch") == line.number("epoch"));
  same = same && message->value("repair", false) == (word == "REPAIR");
  if (word == "DECIDED") {
    const auto first = message->find("first"), failed = message->find("failed");
    const std::uint32_t round =
        first == message->end() ? 0 : first->at(0).at(1).get<std::uint32_t>();
    const std::uint32_t failure =
        failed == message->end() ? 0 : failed->at(0).at(3).get<std::uint32_t>() + 1;
    same = same && round + 1 == line.number("first") && failure == line.number("failure");
  }
  if (!same) throw Disagreement("the coordinator's message is " + message->dump());
  if (!ranks_[line.rank()].traced->channel().answer(*message)) {
    throw Disagreement("the rank does not ask for messages");
  }
}

}  // namespace tally::traces
