#include "control/cli/common/tables.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

using nlohmann::json;

TEST(Tables, ValuesHaveUnits) {
  EXPECT_EQ(format_value(0, Format::kBytes), "0 B");
  EXPECT_EQ(format_value(1536, Format::kBytes), "1.5 KiB");
  EXPECT_EQ(format_value(3ull << 40, Format::kBytes), "3.0 TiB");
  EXPECT_EQ(format_value(5000ull << 40, Format::kBytes), "5000.0 TiB");
  EXPECT_EQ(format_value(999, Format::kCount), "999");
  EXPECT_EQ(format_value(1'200'000, Format::kCount), "1.2M");
  EXPECT_EQ(format_value(3.21, Format::kSeconds), "3.2 s");
  EXPECT_EQ(format_value(245, Format::kSeconds), "4 min 5 s");
  EXPECT_EQ(format_value(7260, Format::kSeconds), "2 h 1 min");
  EXPECT_EQ(format_value(180'000, Format::kSeconds), "2 d 2 h");
  EXPECT_EQ(format_value(1234567, Format::kNumber), "1234567");
  EXPECT_EQ(format_value(nullptr, Format::kBytes), "-");
  EXPECT_EQ(format_value(true, Format::kText), "yes");
}

TEST(Tables, WhatClientsNamedCannotSteerTheTerminal) {
  EXPECT_EQ(format_value("a\033[2Jb\n", Format::kText), "a?[2Jb?");
}

constexpr Column kColumns[] = {
    {"name", "job", Format::kText}, {"n", "count"}, {"b", "bytes", Format::kBytes, true}};

TEST(Tables, ShowTheLargestAndCountTheRest) {
  const json rows = {
      {{"name", "a"}, {"n", 1}}, {{"name", "b"}, {"n", 3}}, {{"name", "c"}, {"n", 2}}};
  EXPECT_EQ(render_heaviest(rows, "n", std::span(kColumns).first(2), 2),
            "job  count\n"
            "b        3\n"
            "c        2\n"
            "and 1 more: --all\n");
  EXPECT_EQ(render_heaviest(rows, "n", std::span(kColumns).first(1), 3), "job\nb\nc\na\n");
}

TEST(Tables, AreAligned) {
  const json rows = {{{"name", "bert"}, {"n", 7}, {"b", 2048}}, {{"name", "x"}, {"n", 12345}}, 3};
  EXPECT_EQ(render_table(rows, kColumns),
            "job   count    bytes\n"
            "bert      7  2.0 KiB\n"
            "x     12345        -\n"
            "-         -        -\n");
}

TEST(Tables, RatesAreOfCountersAlone) {
  const json before = {{{"name", "a"}, {"n", 1}, {"b", 100}}, {{"b", 9}}};
  const json now = {{{"name", "a"}, {"n", 5}, {"b", 300}}, {{"b", 3}}, {{"b", 1}}};
  const json changed = rates(now, before, 2.0, kColumns);
  EXPECT_EQ(changed[0]["n"], 5);
  EXPECT_EQ(changed[0]["b"], 100.0);
  EXPECT_EQ(changed[1]["b"], 0.0);  // counts from zero again: not negative
  EXPECT_EQ(changed[2]["b"], 1);    // was not there before
}

}  // namespace
}  // namespace tally::control
