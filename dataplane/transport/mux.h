// Several transports behind one: each peer comes by one of them. While all peers come by the first
// one, calls go straight to it, and the others are not even looked at.
#pragma once

#include <vector>

#include "base/fd.h"
#include "dataplane/transport/transport.h"

namespace tally::transport {

class Mux : public Transport {
 public:
  // Borrowed. At least one, at most 8; handles of views must be below 2^28. Throws
  // std::system_error when descriptors run out.
  explicit Mux(std::vector<Transport*> ways);

  // -- control, on the shard's thread ----------------------------------------------------------
  // The peer comes by ways[way]. Before it is attached there, and after it has been detached.
  void route(Peer peer, std::size_t way);
  void forget(Peer peer);

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer open(std::span<const Peer> peers) override;
  Peer close(std::span<const Peer> peers) override;
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer) override;
  bool arm() override;
  void disarm() override;
  int fd() const override { return epoll_.get(); }

 private:
  struct Way {
    Transport* transport;
    std::size_t peers = 0;
    // Bursts, sorted by way; reused.
    std::vector<Pull> pulls{};
    std::vector<Push> pushes{};
    std::vector<Message> messages{};
    std::vector<Peer> opened{};
  };
  static constexpr std::uint8_t kNowhere = 0xff;

  bool only_first() const { return others_ == 0 && !draining_; }
  Transport* way_of(Peer peer) const;
  std::size_t index_of(Peer peer) const;

  std::vector<Way> ways_;
  std::size_t turn_ = 0;    // whose notices are taken first
  std::size_t others_ = 0;  // peers that do not come by the first way
  bool draining_ = false;   // one of them has gone: what it is still answered has to be taken
  std::vector<std::uint8_t> way_of_;
  UniqueFd epoll_;
};

}  // namespace tally::transport
