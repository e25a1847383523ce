#include "net/rpc/message.h"

#include <gtest/gtest.h>

#include <string>

namespace tally::rpc {
namespace {

using nlohmann::json;

int fault_code(std::string_view line) {
  const Call call = parse_call(line);
  return call.fault ? static_cast<int>(call.fault->code) : 0;
}

TEST(Message, ReadsACall) {
  const Call call = parse_call(R"({"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}})");
  ASSERT_FALSE(call.fault) << call.fault->message;
  EXPECT_EQ(call.id, 7);
  EXPECT_EQ(call.method, "m");
  EXPECT_EQ(call.params, (json{{"a", 1}}));
  EXPECT_TRUE(call.wants_reply);
}

TEST(Message, ParamsMayBeMissingAndAreThenEmpty) {
  const Call call = parse_call(R"({"jsonrpc":"2.0","method":"m"})");
  ASSERT_FALSE(call.fault);
  EXPECT_EQ(call.params, json::object());
  EXPECT_FALSE(call.wants_reply);
}

TEST(Message, RefusesWhatIsNotACall) {
  EXPECT_EQ(fault_code("{"), -32700);
  EXPECT_EQ(fault_code("{} x"), -32700);
  EXPECT_EQ(fault_code(std::string_view("{\0}", 3)), -32700);
  EXPECT_EQ(fault_code("\xff\xfe"), -32700);
  EXPECT_EQ(fault_code(R"({"jsonrpc":"2.0","method":"m","id":1e999})"), -32700);
  EXPECT_EQ(fault_code("7"), -32600);
  EXPECT_EQ(fault_code("[]"), -32600);
  EXPECT_EQ(fault_code("{}"), -32600);
  EXPECT_EQ(fault_code(R"({"jsonrpc":"1.0","method":"m"})"), -32600);
  EXPECT_EQ(fault_code(R"({"jsonrpc":2.0,"method":"m"})"), -32600);
  EXPECT_EQ(fault_code(R"({"jsonrpc":"2.0"})"), -32600);
  EXPECT_EQ(fault_code(R"({"jsonrpc":"2.0","method":1})"), -32600);
  EXPECT_EQ(fault_code(R"({"jsonrpc":"2.0","method":"m","id":{}})"), -32600);
  EXPECT_EQ(fault_code(R"({"jsonrpc":"2.0","method":"m","params":[1]})"), -32602);
}

TEST(Message, RefusesBatchesByName) {
  const Call call = parse_call(R"([{"jsonrpc":"2.0","id":1,"method":"m"}])");
  ASSERT_TRUE(call.fault);
  EXPECT_NE(call.fault->message.find("batches"), std::string::npos);
}

TEST(Message, AFaultKeepsTheIdWhereThereIsOne) {
  EXPECT_EQ(parse_call(R"({"id":"x","method":"m"})").id, "x");
  EXPECT_EQ(parse_call(R"({"id":[1],"method":"m"})").id, nullptr);
}

TEST(Message, RefusesDeepTexts) {
  EXPECT_EQ(fault_code(std::string(60000, '[')), -32600);
  std::string deep = R"({"jsonrpc":"2.0","method":"m","params":{"a":)";
  EXPECT_EQ(fault_code(deep + std::string(20, '[') + std::string(20, ']') + "}}"), 0);
  EXPECT_EQ(fault_code(deep + std::string(40, '[') + std::string(40, ']') + "}}"), -32600);
  // Brackets in strings are only text.
  EXPECT_EQ(fault_code(deep + "\"\\\"" + std::string(40, '[') + "\"}}"), 0);
}

TEST(Message, WritesErrorsWithStatus) {
  const json reply = json::parse(format_error(3, Status::kRefused, "no"));
  EXPECT_EQ(reply["jsonrpc"], "2.0");
  EXPECT_EQ(reply["id"], 3);
  EXPECT_EQ(reply["error"]["code"], -32013);
  EXPECT_EQ(reply["error"]["message"], "no");
  EXPECT_EQ(reply["error"]["data"]["status"], 13);
  EXPECT_EQ(reply["error"]["data"]["name"], "refused");
}

TEST(Message, EveryReplyIsOneLineWhateverItQuotes) {
  for (const std::string& line :
       {format_error(nullptr, Status::kInternal, "a\nb\xff"), format_result("i\nd", "x\ny"),
        format_fault(1, {Code::kParseError, "\n"})}) {
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    EXPECT_FALSE(json::parse(line, nullptr, false).is_discarded()) << line;
  }
}

}  // namespace
}  // namespace tally::rpc
