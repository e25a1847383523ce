#include "dataplane/engine/tiles/checksums.h"

#include <algorithm>
#include <cstring>

namespace tally::engine {
namespace {

// Reads a view, piece by piece.
class Reader {
 public:
  explicit Reader(View view) : left_(view) {}

  // Returns the next bytes, at most `most`, as far as they lie in one piece; empty at the end.
  std::span<const std::byte> next(std::size_t most) {
    while (!left_.empty() && at_ == left_.front().bytes) {
      left_ = left_.subspan(1);
      at_ = 0;
    }
    if (left_.empty()) return {};
    const Span& piece = left_.front();
    const std::size_t count = std::min(most, piece.bytes - at_);
    at_ += count;
    return {piece.data + at_ - count, count};
  }

 private:
  View left_;
  std::size_t at_ = 0;  // offset in the first piece
};

// Returns false when there are fewer bytes.
bool copy(Reader& from, std::span<std::byte> to) {
  while (!to.empty()) {
    const auto piece = from.next(to.size());
    if (piece.empty()) return false;
    std::memcpy(to.data(), piece.data(), piece.size());
    to = to.subspan(piece.size());
  }
  return true;
}

}  // namespace

bool intact(const Crc32c& crc32c, View bytes, View checksums, std::uint64_t lead, bool streamed) {
  Reader data(bytes), expected(checksums);
  for (std::uint64_t granule = lead;; granule = protocol::kGranuleBytes) {
    std::uint64_t left = granule;
    protocol::Checksum found = 0;
    while (left > 0) {
      const auto piece = data.next(left);
      if (piece.empty()) break;
      found = streamed ? crc32c.streamed(piece, found) : crc32c(piece, found);
      left -= piece.size();
    }
    if (left == granule) return true;  // the data has ended
    protocol::Checksum given = 0;
    if (!copy(expected, std::as_writable_bytes(std::span(&given, 1))) || found != given) {
      return false;
    }
  }
}

}  // namespace tally::engine
