// Notices and completions: whatever parse() accepts is written back the same by encode().
#include <cstring>

#include "dataplane/wire/completion.h"
#include "dataplane/wire/notice.h"
#include "dataplane/wire/vertex.h"
#include "tests/fuzz/input.h"

namespace {

template <typename Message>
void round_trip(const tally::RingEntry& entry) {
  Message message;
  if (tally::wire::parse(entry, message) != tally::Status::kOk) return;
  const tally::RingEntry again = tally::wire::encode(message);
  tally::fuzz::require(std::memcmp(&entry, &again, sizeof entry) == 0,
                       "what was parsed is encoded to the same bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  tally::RingEntry entry{};
  std::memcpy(&entry, data, bytes < sizeof entry ? bytes : sizeof entry);
  round_trip<tally::wire::Notice>(entry);
  round_trip<tally::wire::Completion>(entry);
  round_trip<tally::wire::VertexMessage>(entry);
  return 0;
}
