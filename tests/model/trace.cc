#include "tests/model/trace.h"

#include <sstream>

namespace tally::traces {

const std::string& Line::word(const std::string& name) const {
  const auto found = arguments.find(name);
  if (found == arguments.end()) throw BadTrace("\"" + text + "\" has no " + name);
  return found->second;
}

std::uint32_t Line::number(const std::string& name) const {
  try {
    return static_cast<std::uint32_t>(std::stoul(word(name)));
  } catch (const std::logic_error&) {
    throw BadTrace("\"" + text + "\": " + name + " is no number");
  }
}

bool Line::is_of(std::uint16_t rank) const {
  return has("rank") && number("rank") == rank;
}

std::string Trace::command() const {
  return "tests/model/run.py --trace " + configuration() + " --seed " + header.word("seed");
}

Line read_line(const std::string& text) {
  Line line;
  line.text = text;
  std::istringstream words(text);
  words >> line.event;
  for (std::string word; words >> word;) {
    const auto at = word.find('=');
    if (at == std::string::npos) throw BadTrace("\"" + text + "\" is no event");
    line.arguments[word.substr(0, at)] = word.substr(at + 1);
  }
  return line;
}

std::vector<Trace> read_traces(std::istream& input) {
  std::vector<Trace> traces;
  for (std::string text; std::getline(input, text);) {
    if (text.empty()) continue;
    Line line = read_line(text);
    if (line.event == "trace") {
      traces.push_back({std::move(line), {}});
    } else if (traces.empty()) {
      throw BadTrace("\"" + text + "\" comes before the first line of a trace");
    } else {
      traces.back().lines.push_back(std::move(line));
    }
  }
  return traces;
}

}  // namespace tally::traces
