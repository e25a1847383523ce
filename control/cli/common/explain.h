// Messages for a command line that a tool does not understand.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tally::control {

// One or more lines: what is wrong, and what the user may have meant. program is the tool's name,
// such as "tallyctl".
std::string explanation(const CLI::App& app, const CLI::ParseError& error,
                        const std::string& program);

// Prints --help and --version to stdout, and explains everything else on stderr. Returns false for
// an error.
bool print_help_or_explain(const CLI::App& app, const CLI::ParseError& error,
                           const std::string& program);

}  // namespace tally::control
