// An Ethernet segment inside this process, for tests. Stations send and receive whole frames of
// RoCEv2. The cable loses, doubles, delays and damages frames, and marks them as congested, by
// chances from a seed. It can record what is sent. Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "dataplane/transport/roce/wire/packet.h"
#include "tests/support/roce/frames.h"
#include "tests/support/roce/recording.h"

namespace tally::testing {

// The chance of each fault, for each frame. Each station draws from a generator of its own. So the
// n-th frame of a station meets the same faults in each run with the same seed.
struct CableFaults {
  std::uint64_t seed = 1;
  double loss = 0;
  double twice = 0;   // "double"
  double swap = 0;    // the frame arrives after later ones
  double damage = 0;  // bits are flipped that the ICRC protects
  double mark = 0;    // as a congested switch marks it, if its sender knows of such marks (ECN)
};

// "seed=7,loss=0.01,double=0.01,swap=0.01,damage=0.01,mark=0.01"; a part that is absent has its
// default.
// Throws std::invalid_argument.
CableFaults parse_faults(std::string_view text);

// Numbers of frames. Both copies of a doubled frame count.
struct CableCounters {
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> lost = 0;
  std::atomic<std::uint64_t> doubled = 0;
  std::atomic<std::uint64_t> swapped = 0;
  std::atomic<std::uint64_t> damaged = 0;
  std::atomic<std::uint64_t> marked = 0;
  std::atomic<std::uint64_t> refused = 0;     // damaged ones that a receiver has found
  std::atomic<std::uint64_t> no_station = 0;  // no station has the address
  std::atomic<std::uint64_t> no_room = 0;     // the receiver had too many frames to take
};
std::string to_text(const CableCounters& counters);

class Cable;

// A machine's end of the cable, with one MAC address and one IPv4 address. It must end before the
// cable.
class Station {
 public:
  struct Arrived {
    transport::roce::Packet packet{};
    FrameBytes frame{};
  };

  ~Station();

  const transport::roce::IpAddress& address() const { return address_; }
  const transport::roce::MacAddress& mac() const { return mac_; }

  // The frame goes to the station with the target's MAC address.
  void send(const FrameBytes& frame);
  // The next frame that is intact. Throws std::logic_error when the reader refuses an intact frame,
  // or takes a damaged one.
  std::optional<Arrived> receive(Nanos now);
  // Waits until a frame can be received, ring() was called, or this time has come.
  void wait(Nanos until);
  void ring();

 private:
  friend class Cable;
  struct Waiting {
    FrameBytes frame;
    bool is_damaged = false;
  };
  Station(Cable& cable, std::uint16_t number);

  bool draw(double chance);
  FrameBytes marked(FrameBytes frame);
  void damage(FrameBytes& frame);
  void take(Waiting waiting, Nanos due);
  std::optional<Waiting> next(Nanos now);
  Nanos first_late() const { return late_.empty() ? INT64_MAX : late_.begin()->first; }

  Cable& cable_;
  transport::roce::MacAddress mac_;
  transport::roce::IpAddress address_;
  std::mutex sending_;  // protects random_
  std::mt19937_64 random_;
  std::mutex receiving_;  // protects the rest
  std::condition_variable arrived_;
  std::deque<Waiting> waiting_;
  std::multimap<Nanos, Waiting> late_;  // by the time at which they arrive
  bool rung_ = false;
};

class Cable {
 public:
  // recording: gets each frame once, with its mark, before the other faults. It has the frame
  // before the receiver has it, so an answer comes after what it answers. Null: no recording.
  explicit Cable(const CableFaults& faults, std::unique_ptr<Recording> recording = nullptr)
      : faults_(faults), recording_(std::move(recording)) {}
  ~Cable();

  // A new station with addresses of its own.
  std::shared_ptr<Station> plug_in();
  // The MAC address of a station's IP address, as ARP finds it.
  std::optional<transport::roce::MacAddress> mac_of(
      const transport::roce::IpAddress& address) const;
  const CableFaults& faults() const { return faults_; }
  const CableCounters& counters() const { return counters_; }

 private:
  friend class Station;
  std::shared_ptr<Station> at(const transport::roce::MacAddress& mac) const;

  const CableFaults faults_;
  const std::unique_ptr<Recording> recording_;
  CableCounters counters_;
  mutable std::mutex mutex_;  // protects the rest
  std::map<transport::roce::MacAddress, std::weak_ptr<Station>> stations_;
  std::uint16_t last_ = 0;
};

// The cable of this process, with the faults of $TALLY_TEST_CABLE. It records to the file of
// $TALLY_TEST_RECORDING (pcap), which tests/roce/check_recording.py checks.
Cable& test_cable();

}  // namespace tally::testing
