#include "tests/support/roce/frames.h"

#include <algorithm>

#include "base/crc32.h"
#include "dataplane/transport/roce/wire/icrc.h"

namespace tally::testing {

namespace roce = transport::roce;

namespace {

const Crc32& crc() {
  static const Crc32& opened = *Crc32::open().value();
  return opened;
}

}  // namespace

FrameBytes write_frame(roce::Packet& packet, std::span<const std::byte> payload) {
  packet.payload = static_cast<std::uint32_t>(payload.size());
  FrameBytes frame(roce::kMostHeaders + payload.size() + 3 + roce::kIcrcBytes);
  roce::write_headers(packet, std::span(frame).first(roce::kMostHeaders));
  std::copy(payload.begin(), payload.end(), frame.begin() + packet.headers);
  const std::size_t end = packet.icrc_at();
  std::fill(frame.begin() + packet.headers + static_cast<std::ptrdiff_t>(payload.size()),
            frame.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
  roce::Icrc icrc(crc(), packet, std::span(frame).first(packet.headers));
  icrc.add(std::span(frame).subspan(packet.headers, end - packet.headers));
  for (std::size_t i = 0; i < roce::kIcrcBytes; ++i) {
    frame[end + i] = static_cast<std::byte>(icrc.value() >> 8 * i);
  }
  frame.resize(end + roce::kIcrcBytes);
  return frame;
}

std::optional<roce::Packet> read_frame(std::span<const std::byte> frame) {
  roce::Packet packet;
  const auto begin = frame.first(std::min(frame.size(), roce::kBytesToRead));
  const auto wrong = roce::read_packet(begin, frame.size(), packet);
  const std::size_t end = packet.icrc_at();
  if (wrong != roce::Unreadable::kNo || frame.size() < end + roce::kIcrcBytes) return std::nullopt;
  roce::Icrc icrc(crc(), packet, frame.first(packet.headers));
  icrc.add(frame.subspan(packet.headers, end - packet.headers));
  for (std::size_t i = 0; i < roce::kIcrcBytes; ++i) {
    if (frame[end + i] != static_cast<std::byte>(icrc.value() >> 8 * i)) return std::nullopt;
  }
  return packet;
}

}  // namespace tally::testing
