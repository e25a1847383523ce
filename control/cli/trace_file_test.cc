#include "control/cli/trace_file.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace tally::control {
namespace {

using nlohmann::json;

json record(std::uint32_t round) {
  return {{"tag", 17},         {"round", round},    {"kind", "all-reduce"}, {"status", "ok"},
          {"last_rank", 3},    {"notice_ns", 1000}, {"ready_ns", 2500},     {"started_ns", 2600},
          {"pulled_ns", 2700}, {"summed_ns", 2900}, {"completed_ns", 3000}, {"pulling_ns", 100},
          {"summing_ns", 200}, {"pushing_ns", 100}};
}

json taken(std::initializer_list<json> records, std::uint64_t dropped = 0) {
  return {{"dropped", dropped}, {"records", json(records)}};
}

// A file with what is added to it, and what stands in it.
struct Written {
  std::ostringstream text;
  TraceFile file{text, "bert"};

  json document() {
    file.finish();
    return json::parse(text.str(), nullptr, false);
  }
};

// Slices of an id begin and end in order of time, one within the other: the first holds the rest.
void check_nesting(const json& document) {
  std::map<json, std::vector<json>> open;  // by id
  std::map<json, json> latest;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    auto& stack = open[event.at("id")];
    json& time = latest.emplace(event.at("id"), event.at("ts")).first->second;
    EXPECT_LE(time, event.at("ts"));
    time = event.at("ts");
    if (event.at("ph") == "b") {
      EXPECT_EQ(stack.empty(), (event.contains("args") && event["args"].contains("status")))
          << event;
      stack.push_back(event.at("name"));
      continue;
    }
    ASSERT_EQ(event.at("ph"), "e");
    ASSERT_FALSE(stack.empty());
    EXPECT_EQ(stack.back(), event.at("name"));
    stack.pop_back();
  }
  for (const auto& [id, stack] : open) EXPECT_TRUE(stack.empty()) << id;
}

json slices(const json& document, const char* phase) {
  json list = json::array();
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) list.push_back({event.at("name"), event.at("ts")});
  }
  return list;
}

TEST(TraceFile, AnOperationIsASliceWithItsStagesBelow) {
  Written written;
  TraceFile& file = written.file;
  file.add(1, taken({record(4)}));
  const json document = written.document();
  check_nesting(document);
  EXPECT_EQ(slices(document, "b"), json::parse(R"([["all-reduce tag 17", 1.0],
      ["waiting", 1.0], ["queueing", 2.5], ["tiles", 2.6]])"));
  EXPECT_EQ(slices(document, "e"), json::parse(R"([["waiting", 2.5], ["queueing", 2.6],
      ["tiles", 3.0], ["all-reduce tag 17", 3.0]])"));
  EXPECT_EQ(file.operations(), 1u);
}

TEST(TraceFile, ShardsHaveNamesAndOperationsTheirOwnIds) {
  Written written;
  TraceFile& file = written.file;
  file.add(0, taken({record(1), record(2)}, 5));
  file.add(2, taken({record(3)}, 1));
  file.add(0, taken({record(4)}));
  const json document = written.document();
  check_nesting(document);
  EXPECT_EQ(file.operations(), 4u);
  EXPECT_EQ(file.dropped(), 6u);
  std::map<int, int> names;
  std::map<json, int> ids;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == "M") ++names[event.at("pid").get<int>()];
    if (event.at("ph") == "b") ++ids[event.at("id")];
  }
  EXPECT_EQ(names, (std::map<int, int>{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(ids.size(), 4u);
}

TEST(TraceFile, WhatFailedEndsInTheStageThatItReached) {
  json never_ready = record(1);
  never_ready["ready_ns"] = never_ready["started_ns"] = 0;
  never_ready["status"] = "deadline";
  json without_data = record(2);
  without_data["started_ns"] = 0;
  Written written;
  TraceFile& file = written.file;
  file.add(0, taken({never_ready, without_data}));
  const json document = written.document();
  check_nesting(document);
  EXPECT_EQ(slices(document, "e"), json::parse(R"([["waiting", 3.0], ["all-reduce tag 17", 3.0],
      ["waiting", 2.5], ["queueing", 3.0], ["all-reduce tag 17", 3.0]])"));
}

}  // namespace
}  // namespace tally::control
