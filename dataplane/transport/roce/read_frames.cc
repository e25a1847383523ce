#include "dataplane/transport/roce/read_frames.h"

#include <cstring>
#include <utility>

namespace tally::transport::roce {
namespace {

// Returns the end of the copy.
std::byte* copy(View payload, std::byte* to) {
  for (const Span& piece : payload) {
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
  return to;
}

}  // namespace

void ReadFrames::add(std::uint32_t operation, std::size_t offset, std::uint32_t packet_bytes,
                     Arrival& arrival, std::byte* landing) {
  const View payload = arrival.payload();
  std::byte* const begin = landing + offset;
  if (packet_bytes < kLeastPacket) {
    copy(payload, begin);
    return;
  }
  if (operation >= pieces_.size()) pieces_.resize(operation + 1);
  Pieces& pieces = pieces_[operation];
  const std::size_t place = offset / packet_bytes;
  if (place >= pieces.spans.size()) pieces.spans.resize(place + 1);
  if (payload.size() == 1 && kept_ < most_) {
    pieces.spans[place] = payload.front();
    pieces.frames.push_back(std::move(arrival.frame));
    ++kept_;
    return;
  }
  std::byte* const end = copy(payload, begin);
  pieces.spans[place] = {begin, static_cast<std::size_t>(end - begin)};
}

void ReadFrames::drop(std::uint32_t operation) {
  if (operation >= pieces_.size()) return;
  Pieces& pieces = pieces_[operation];
  kept_ -= pieces.frames.size();
  pieces.frames.clear();
  pieces.spans.clear();
}

}  // namespace tally::transport::roce
