// For tests of code that opens a library once for the process: the output of a program that does
// it, with libraries of the test in the place of those of the system.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace tally::test {

// What the program prints. It finds libraries in these folders ("a:b") first. assignments: more
// variables of its environment, for a shell: "NAME='value'". The program must succeed.
inline std::string output_with_libraries(const std::string& program, const std::string& folders,
                                         const std::string& assignments = "") {
  const std::string command =
      assignments + " LD_LIBRARY_PATH='" + folders + "':\"$LD_LIBRARY_PATH\" '" + program + "'";
  std::FILE* const output = ::popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) text += static_cast<char>(c);
  EXPECT_EQ(::pclose(output), 0) << command;
  return text;
}

}  // namespace tally::test
