// For tests: a trace, which is a run of the model of repair. README.md has its format.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tally::traces {

// The code does not do what the trace says.
class Disagreement : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The trace cannot be read, or is of a kind that the replay does not know.
class BadTrace : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Line {
  std::string text;
  std::string event;
  std::map<std::string, std::string> arguments;

  bool has(const std::string& name) const { return arguments.contains(name); }
  // Throws BadTrace when there is no such argument.
  const std::string& word(const std::string& name) const;
  std::uint32_t number(const std::string& name) const;
  std::uint16_t rank() const { return static_cast<std::uint16_t>(number("rank")); }
  bool is_of(std::uint16_t rank) const;
};

struct Trace {
  Line header;
  std::vector<Line> lines;

  std::string configuration() const { return header.word("configuration"); }
  std::uint16_t ranks() const { return static_cast<std::uint16_t>(header.number("ranks")); }
  std::uint32_t nodes() const { return header.number("nodes"); }
  std::uint32_t parts() const { return header.number("parts"); }
  bool in_place() const { return header.number("in_place") == 1; }
  bool preserve() const { return header.number("preserve") == 1; }
  bool eager() const { return header.number("eager") == 1; }
  // Prints this trace again.
  std::string command() const;
};

Line read_line(const std::string& text);
std::vector<Trace> read_traces(std::istream& input);

}  // namespace tally::traces
