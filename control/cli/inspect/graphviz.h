// Runs the program `dot` of Graphviz.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace tally::control {

// Returns the picture of a text in the language dot, as SVG. `program`: the program's name, which
// is searched in $PATH, or its path. Blocks until the program ends, and kills it after `limit`. An
// error says that there is no such program and what to install, that it needed too long or drew
// nothing, or repeats what it wrote to stderr.
Result<std::string> svg_of(const std::string& text, const std::string& program, Nanos limit);

}  // namespace tally::control
