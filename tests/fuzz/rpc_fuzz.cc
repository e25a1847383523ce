// A line of the control socket: never a crash, and what is answered is JSON of one line.
#include <string>

#include "net/rpc/message.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using tally::fuzz::require;
  const auto call =
      tally::rpc::parse_call(std::string_view(reinterpret_cast<const char*>(data), bytes));
  const std::string reply = call.fault ? tally::rpc::format_fault(call.id, *call.fault)
                                       : tally::rpc::format_result(call.id, call.params);
  require(!reply.empty() && reply.find('\n') == reply.size() - 1, "a reply is one line");
  require(nlohmann::json::accept(reply), "a reply is JSON");
  require(call.fault || call.params.is_object(), "parameters are an object");
  return 0;
}
