// Joins several transports to one. Each peer uses one of them, called its way. While nobody uses
// another way than the first, a call goes straight to that transport; only arm() and disarm() call
// all of them.
#pragma once

#include <vector>

#include "base/system/fd.h"
#include "dataplane/transport/transport.h"

namespace tally::transport {

// One thread: the shard's.
class Mux : public Transport {
 public:
  // ways: 1 to 16 transports, borrowed for the life of the Mux. The handles of their views must be
  // below 2^28. Throws std::system_error when descriptors run out.
  explicit Mux(std::vector<Transport*> ways);

  // -- control, on the shard's thread ----------------------------------------------------------
  // The peer uses ways[way] from now on. The caller calls it before it attaches the peer there.
  void route(Peer peer, std::size_t way);
  // Ends route(). The caller calls it after it has detached the peer from its way. Does nothing for
  // a peer without a way.
  void forget(Peer peer);
  // Others than peers use ways[way]: it is asked like a way with peers, until as many calls of
  // end_use().
  void use(std::size_t way);
  void end_use(std::size_t way);

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer begin_access(std::span<const Peer> peers) override;
  Peer end_access(std::span<const Peer> peers) override;
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer, std::string_view why) override;
  bool arm() override;
  void disarm() override;
  int fd() const override { return epoll_.get(); }

 private:
  struct Way {
    Transport* transport;
    std::size_t users = 0;  // peers and others that use this way
    // This way's entries of the current burst. The vectors are reused, so that they keep their
    // memory.
    std::vector<Pull> pulls{};
    std::vector<Push> pushes{};
    std::vector<Message> messages{};
    std::vector<Peer> opened{};
  };
  static constexpr std::uint8_t kNowhere = 0xff;  // the peer has no way

  bool only_first() const { return others_ == 0 && !draining_; }
  Transport* way_of(Peer peer) const;
  std::size_t index_of(Peer peer) const;

  std::vector<Way> ways_;
  std::size_t turn_ = 0;    // modulo the number of ways: the way that receive() asks first
  std::size_t others_ = 0;  // users of other ways than the first
  // A peer of another way was forgotten. All ways are asked until the answers for it are taken.
  bool draining_ = false;
  bool all_pulled_ = true;  // the last pulled() of all ways had room for more answers than it got
  std::vector<std::uint8_t> way_of_;  // by Peer; index in ways_
  UniqueFd epoll_;
};

}  // namespace tally::transport
