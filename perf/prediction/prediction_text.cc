// The report of a prediction, as text and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/speed.h"
#include "perf/prediction/prediction.h"

namespace tally::perf {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLinks = 12;  // in the text

std::string and_more(const Prediction& prediction) {
  if (prediction.links.size() <= kMostLinks) return {};
  return fmt::format("#   and {} more: --json\n", prediction.links.size() - kMostLinks);
}

}  // namespace

json to_json(const Prediction& prediction) {
  json document = {{"why_none", prediction.why_none}};
  if (prediction.nodes == 0) return document;
  document.update({{"epoch", prediction.epoch},
                   {"nodes", prediction.nodes},
                   {"trees", prediction.trees},
                   {"split_bytes", prediction.split_bytes},
                   {"links", json::array()}});
  if (!prediction.note.empty()) document["note"] = prediction.note;
  const bool has_time = prediction.why_none.empty();
  if (has_time) document.update({{"tau", prediction.load.tau}, {"binds", prediction.binds}});
  for (const LinkLoad& link : prediction.links) {
    document["links"].push_back({{"what", link.what},
                                 {"capacity", link.capacity > 0 ? json(link.capacity) : json()},
                                 {"bytes", link.bytes},
                                 {"busy", has_time ? json(link.busy) : json()}});
  }
  return document;
}

json links_in(const Prediction& prediction, std::uint64_t bytes, double seconds) {
  json links = json::array();
  for (const LinkLoad& link : prediction.links) {
    const double rate = link.bytes * static_cast<double>(bytes) / seconds;
    links.push_back({{"what", link.what}, {"rate", rate}, {"busy", rate / link.capacity}});
  }
  return links;
}

std::string render(const Prediction& prediction) {
  std::string text;
  if (prediction.nodes > 0) {
    text += fmt::format("# plan: epoch {}, {} trees at {} nodes", prediction.epoch,
                        prediction.trees, prediction.nodes);
    if (prediction.why_none.empty()) {
      text += fmt::format(", {:.4g} ns per byte ({}); {} binds", prediction.load.tau * 1e9,
                          tally::speed_text(1 / prediction.load.tau), prediction.binds);
    }
    text += "\n";
  }
  if (!prediction.note.empty()) text += "# " + prediction.note + "\n";
  if (!prediction.why_none.empty()) text += "# no prediction: " + prediction.why_none + "\n";
  const std::size_t shown = std::min(prediction.links.size(), kMostLinks);
  for (std::size_t i = 0; i < shown; ++i) {
    const LinkLoad& link = prediction.links[i];
    text += fmt::format("#   {}: {:.4f} bytes per byte", link.what, link.bytes);
    text += link.capacity > 0 ? fmt::format(" at {}", tally::speed_text(link.capacity))
                              : ", speed unknown";
    text += prediction.why_none.empty() ? fmt::format(", busy {:.0f}%\n", 100 * link.busy) : "\n";
  }
  return text + and_more(prediction);
}

std::string render_links_in(const Prediction& prediction, std::uint64_t bytes, double seconds) {
  std::string text = fmt::format("# links in {:.4g} ms for {} bytes:\n", seconds * 1e3, bytes);
  const json links = links_in(prediction, bytes, seconds);
  for (std::size_t i = 0; i < std::min(links.size(), kMostLinks); ++i) {
    text += fmt::format("#   {}: {}, busy {:.0f}% of predicted {:.0f}%\n",
                        links[i]["what"].get<std::string>(),
                        tally::speed_text(links[i]["rate"].get<double>()),
                        100 * links[i]["busy"].get<double>(), 100 * prediction.links[i].busy);
  }
  return text + and_more(prediction);
}

}  // namespace tally::perf
