// Notices and completions: whatever parse() accepts is written back the same by encode().
#include <cstring>

#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"
#include "dataplane/wire/vertex.h"
#include "tests/fuzz/input.h"

namespace {

template <typename Message>
void round_trip(const tally::RingEntry& slot) {
  Message message;
  if (tally::wire::parse(slot, message) != tally::Status::kOk) return;
  const tally::RingEntry again = tally::wire::encode(message);
  tally::fuzz::require(std::memcmp(&slot, &again, sizeof slot) == 0,
                       "what was parsed is encoded to the same bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tally::RingEntry slot{};
  std::memcpy(&slot, data, bytes < sizeof slot ? bytes : sizeof slot);
  round_trip<tally::wire::Notice>(slot);
  round_trip<tally::wire::Completion>(slot);
  round_trip<tally::wire::VertexMessage>(slot);
  return 0;
}
