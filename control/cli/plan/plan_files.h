// Reads and writes files that a command line names.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/system/output_file.h"
#include "control/plan/model/plan.h"

namespace tally::control {

// Reads a file, up to one byte more than the largest plan; the plan's parser reports that size.
// kind says in the error message what to give instead: "a plan file".
Result<std::string> read_file(const std::string& path, std::string_view kind);

// Reads a plan whose trees have up to max_height levels, and validates it. An error names the file,
// the place in it, the value and what it must be.
Result<plan::Plan> read_plan_file(const std::string& path, std::uint32_t max_height);

// Returns the domain of this name, or the first one for an empty name. The plan keeps it. An error
// says that the plan has no such domain.
Result<const plan::Domain*> find_domain(const plan::Plan& plan, const std::string& name);

// A file that a command reads.
struct InputFile {
  std::string_view option;  // that names it
  std::string_view path;    // empty: it is not given
};

// Refuses an output that is the file of an input of the same command, which it would replace.
// option: of the output.
Outcome check_output(std::string_view option, std::string_view path,
                     std::initializer_list<InputFile> inputs);

// Create and write the file of --out, which errors name.
Result<OutputFile> create_out(const std::string& path);
Outcome write_out(const std::string& path, std::string_view text);

}  // namespace tally::control
