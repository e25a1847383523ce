// A file of frames in the format of pcap, as tcpdump writes it and Wireshark reads it: a header for
// the file and one for each frame. Times are nanoseconds of the real-time clock. Any thread.
//
// Source: draft-ietf-opsawg-pcap (PCAP Capture File Format), magic number of nanoseconds.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include "base/system/fd.h"

namespace tally::testing {

class Recording {
 public:
  // Replaces the file. Throws std::system_error.
  explicit Recording(const std::string& path);

  // The frame is in the file when the call returns, so a program that is killed loses none. Throws
  // std::system_error.
  void add(std::span<const std::byte> frame);

 private:
  std::string path_;
  std::mutex writing_;  // frames have the order of their times
  UniqueFd file_;
};

}  // namespace tally::testing
