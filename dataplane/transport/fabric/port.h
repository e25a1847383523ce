// Transport `fabric`, the node's side, one for each shard: workers on other machines, over
// libfabric. A pull is an fi_read into landing memory, a push an fi_write that is answered when the
// bytes are placed (FI_DELIVERY_COMPLETE), a completion a message after that.
//
// Every session has an endpoint of its own: closing it is the one way to be sure that nothing is
// read or written any more, whatever state the peer and the network are in. Every job has a domain
// of its own: libfabric 1.17.0 frees a read's record twice when a connection breaks in the middle
// of its bytes (mended in 1.17.1), and what comes of that stays in the domain, whose job is over
// anyway.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "dataplane/transport/fabric/domain.h"
#include "dataplane/transport/fabric/landing.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::fabric {

struct PortOptions {
  DomainOptions domain;
  std::uint32_t shard = 0;
  std::size_t landing_bytes = 0;  // all pulls in flight: at least the largest tile of all ranks
  std::size_t window_bytes = 0;   // what usually is
};

class Port : public Transport {
 public:
  static Result<std::unique_ptr<Port>> open(const PortOptions& options);
  ~Port() override;

  // -- control, on the shard's thread ----------------------------------------------------------
  // Precondition: `peer` is not attached. `name`: of the client's endpoint. Gives the name of the
  // endpoint that serves it.
  struct Client {
    std::uint32_t job = 0;  // whose peers fail together
    std::span<const std::byte> name;
    std::uint64_t secret = 0;
  };
  Result<Name> attach(Peer peer, const Client& client);
  // From its return on nothing touches the peer's memory, nor anything of this port for its sake.
  void detach(Peer peer);
  struct Region {
    std::uint64_t base = 0;  // where the peer says that it begins
    std::uint64_t bytes = 0;
    std::uint64_t key = 0;
  };
  void add_region(Peer peer, std::uint32_t number, const Region& region);
  void remove_region(Peer peer, std::uint32_t number);
  std::size_t sessions() const;
  // Why the peer is lost; empty while it is not.
  std::string why_lost(Peer peer) const;
  const std::string& provider() const { return model_->provider(); }
  const std::string& host() const { return host_; }

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer open(std::span<const Peer>) override { return kNoPeer; }  // its fence closes its own end
  Peer close(std::span<const Peer>) override { return kNoPeer; }
  void locate(std::span<Landing>) override {}  // nothing can be stored there directly
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer) override;
  bool arm() override;
  void disarm() override {}
  int fd() const override { return epoll_.get(); }

 private:
  // What an operation's context leads to when its completion comes.
  struct Context {
    enum class Kind : std::uint8_t { kReceive, kPull, kPush };
    fi_context2 room{};  // the provider's
    Kind kind = Kind::kReceive;
    Peer peer = 0;
  };
  struct Operation : Context {
    std::uint64_t user = 0;
    std::uint64_t address = 0;  // remote
    std::uint64_t key = 0;
    std::byte* local = nullptr;
    std::size_t bytes = 0;
    std::uint64_t landing = 0;  // kPull: the block's number
    Span view{};
    std::uint32_t index = 0;  // of itself
    bool placed = false;      // has a landing block
    bool under_way = false;   // the provider has it
    bool answered = false;    // a pull: its view is out
  };
  struct ReceiveBuffer : Context {
    alignas(kCacheLine) std::array<std::byte, 4096> bytes;
  };
  struct Job {
    std::unique_ptr<Domain> domain;
    std::size_t sessions = 0;
  };
  struct Session {
    std::uint32_t job = 0;
    Fid<fid_ep> endpoint;
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::uint64_t secret = 0;
    bool broken = false;  // no longer served; to be reported by lost()
    std::string why;      // it is
    bool reported = false;
    std::vector<Region> regions;  // by number; 0 is none
    std::array<ReceiveBuffer, 2> receives;
    std::deque<std::uint32_t> waiting;  // operations that the endpoint does not take yet
    std::deque<RingSlot> completions;   // and messages
    std::size_t notices = 0;            // come and not yet taken by the shard
    // For the watch on peers that do nothing any more.
    std::size_t under_way = 0;  // operations that the provider has
    std::uint64_t ended = 0;    // and that it had
    std::uint64_t ended_seen = 0;
    Nanos stalled = 0;  // for so long none has
  };

  explicit Port(const PortOptions& options, std::unique_ptr<Domain> model);

  Session* attached(Peer peer) const {
    return peer < sessions_.size() ? sessions_[peer].get() : nullptr;
  }
  Session* serving(Peer peer) const;
  const Region* region_of(const Range& range) const;
  Result<Domain*> domain_of(std::uint32_t job);
  void leave(std::uint32_t job);
  Result<Name> connect(Session& session, Domain& domain, const Client& client);
  void let_go(Session& session, Domain& domain);
  Outcome post_receive(Session& session, ReceiveBuffer& buffer);
  std::uint32_t take_operation(Context::Kind kind, const Range& range, std::uint64_t user);
  void place_pulls();
  void progress();
  void progress(Domain& domain);
  void send_waiting(Session& session);
  bool start(Session& session, Operation& operation);
  bool send(Session& session, const RingSlot& message);
  void on_completion(const fi_cq_data_entry& entry);
  bool on_error(Domain& domain);
  void on_message(Session& session, Peer peer, std::span<const std::byte> bytes);
  void end(Operation& operation, Status status);
  void give_back(Operation& operation);
  static void refuse(Session& session, std::string why);
  static void watch(Session& session, Nanos passed);

  std::uint32_t shard_;
  std::string host_;  // where endpoints are bound
  LandingRing landing_;
  UniqueFd epoll_;
  std::unique_ptr<Domain> model_;  // of the jobs' domains; has no endpoints
  std::map<std::uint32_t, Job> jobs_;
  std::vector<std::unique_ptr<Session>> sessions_;  // by Peer
  bool backlog_ = false;  // some session has what its endpoint does not take yet
  Nanos last_watch_ = 0;
  std::deque<Operation> operations_;  // by index; addresses stay
  std::vector<std::uint32_t> free_operations_;
  std::deque<std::uint32_t> unplaced_;  // pulls without a landing block, in order
  std::deque<Received> received_;
  std::deque<Pulled> pulled_;
  std::deque<Pushed> pushed_;
};

}  // namespace tally::transport::fabric
