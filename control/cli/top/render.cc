#include "control/cli/top/render.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "control/cli/common/tables.h"

namespace tally::control::top {
namespace {

using nlohmann::json;

constexpr std::array kNodeColumns = {
    Column{"node", "node", Format::kText},
    Column{"role", "role", Format::kText},
    Column{"state", "state", Format::kText},
    Column{"shards", "shards", Format::kCount},
    Column{"sessions", "sessions", Format::kCount},
    Column{"jobs", "jobs", Format::kCount},
    Column{"in_per_s", "in/s", Format::kBytes},
    Column{"out_per_s", "out/s", Format::kBytes},
    Column{"failures_per_s", "failures/s", Format::kCount},
    Column{"address", "address", Format::kText},
};

constexpr std::array kJobColumns = {
    Column{"job", "job", Format::kText},
    Column{"epoch", "epoch"},
    Column{"joined_of", "joined", Format::kText},
    Column{"nodes_of", "nodes", Format::kText},
    Column{"goodput_per_s", "goodput/s", Format::kBytes},
    Column{"parts_per_s", "parts/s", Format::kCount},
    Column{"us_per_part", "us/part"},
    Column{"wait_share", "wait", Format::kPercent},
    Column{"outstanding", "parts", Format::kCount},
    Column{"waiting", "waiting", Format::kCount},
};

constexpr std::array kWaitingColumns = {
    // Tags and rounds are names, so they are shown in full, as in messages and traces.
    Column{"job", "job", Format::kText},         Column{"tag", "tag", Format::kWhole},
    Column{"round", "round", Format::kWhole},    Column{"seconds", "waiting", Format::kSeconds},
    Column{"ranks", "for ranks", Format::kText}, Column{"node", "node", Format::kText},
};

constexpr std::array kStragglerColumns = {
    Column{"job", "job", Format::kText},
    Column{"rank", "rank"},
    Column{"times_last", "last", Format::kCount},
    Column{"last_share", "of all", Format::kPercent},
    Column{"late_us", "us late"},
    Column{"lost_share", "lost", Format::kPercent},
    Column{"waited_for", "waited for", Format::kCount},
};

constexpr std::array kShardColumns = {
    Column{"node", "node", Format::kText},
    Column{"shard", "shard", Format::kWhole},
    Column{"in_per_s", "in/s", Format::kBytes},
    Column{"out_per_s", "out/s", Format::kBytes},
    Column{"tiles_per_s", "tiles/s", Format::kCount},
    Column{"completions_per_s", "completions/s", Format::kCount},
    Column{"failures_per_s", "failures/s", Format::kCount},
};

constexpr std::size_t kMostListed = 12;  // ranks that one operation waits for

std::string ranks_text(const json& missing) {
  std::string text;
  for (std::size_t i = 0; i < missing.size() && i < kMostListed; ++i) {
    text += (i == 0 ? "" : ", ") + missing[i].dump();
  }
  if (missing.size() > kMostListed)
    text += fmt::format(" and {} more", missing.size() - kMostListed);
  return text;
}

std::string count_of(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string heading(const json& view) {
  std::size_t silent = 0;
  for (const json& node : view["nodes"]) {
    if (!text_at(node, "reason").empty()) ++silent;
  }
  std::string text = fmt::format("tally top: {}, {}", count_of(view["nodes"].size(), "node"),
                                 count_of(view["jobs"].size(), "job"));
  if (silent > 0) text += fmt::format(", {} not as it should be", count_of(silent, "node"));
  if (const std::string at = text_at(view, "coordinator"); !at.empty()) {
    text += "; coordinator " + format_value(at, Format::kText);
  }
  const double seconds = number_at(view, "seconds");
  text += seconds > 0 ? fmt::format("; rates over {:.1f} s\n", seconds) : "; no rates yet\n";
  if (const std::string note = text_at(view, "note"); !note.empty()) {
    text += format_value(note, Format::kText) + "\n";
  }
  return text;
}

// Returns the rows with the columns that combine two fields.
json readable(json rows) {
  for (json& row : rows) {
    row["joined_of"] = fmt::format("{}/{}", number_at(row, "joined"), number_at(row, "ranks"));
    row["nodes_of"] = fmt::format("{}/{}", number_at(row, "nodes_seen"), number_at(row, "nodes"));
    row["ranks"] = ranks_text(list_at(row, "missing"));
  }
  return rows;
}

// Reasons have lines of their own, because the right end of a table row may be cut off.
std::string reasons(const json& nodes) {
  std::string text;
  for (const json& node : nodes) {
    const std::string reason = text_at(node, "reason");
    if (reason.empty()) continue;
    text += fmt::format("{}: {}\n", format_value(text_at(node, "node"), Format::kText),
                        format_value(reason, Format::kText));
  }
  return text;
}

std::string section(std::string_view title, const json& rows, std::span<const Column> columns) {
  if (rows.empty()) return {};
  return fmt::format("\n{}\n{}", title, render_table(readable(rows), columns));
}

// Cuts UTF-8 between characters. Each character counts as one column.
std::string_view first_columns(std::string_view line, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool continues = (static_cast<unsigned char>(line[i]) & 0xc0) == 0x80;
    if (!continues && columns++ == width) return line.substr(0, i);
  }
  return line;
}

std::string fit(std::string_view text, const Screen& screen) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  std::string out;
  const bool cut = screen.height > 0 && lines.size() > screen.height;
  const std::size_t shown = cut ? screen.height - 1 : lines.size();
  for (std::size_t i = 0; i < shown; ++i) {
    out += screen.width > 0 ? first_columns(lines[i], screen.width) : lines[i];
    out += '\n';
  }
  if (!cut) return out;
  const std::string rest =
      fmt::format("{} more lines: a taller window, or --once", lines.size() - shown);
  out += screen.width > 0 ? first_columns(rest, screen.width) : std::string_view(rest);
  return out + '\n';
}

}  // namespace

std::string render_top(const json& view, const Screen& screen) {
  std::string text = heading(view);
  text += "\n" + render_table(readable(view["nodes"]), kNodeColumns);
  text += reasons(view["nodes"]);
  text += section("jobs", view["jobs"], kJobColumns);
  text += section("waiting for ranks that have not announced", view["waiting"], kWaitingColumns);
  text += section("ranks that were last", view["stragglers"], kStragglerColumns);
  text += section("shards", view["shards"], kShardColumns);
  return fit(text, screen);
}

}  // namespace tally::control::top
