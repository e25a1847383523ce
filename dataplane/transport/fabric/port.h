// Transport `fabric`, the node's side, one for each shard: workers on other machines, over
// libfabric. A pull is an fi_read into landing memory, a push an fi_write that is answered when the
// bytes are placed (FI_DELIVERY_COMPLETE), a completion a message after that; onesided/port.h has
// what is not libfabric's.
//
// Every session has an endpoint of its own: closing it is the one way to be sure that nothing is
// read or written any more, whatever state the peer and the network are in. Every job has a domain
// of its own: libfabric 1.17.0 frees a read's record twice when a connection breaks in the middle
// of its bytes (mended in 1.17.1), and what comes of that stays in the domain, whose job is over
// anyway. Where endpoints cannot share one (Domain::for_one) every session has its own.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "base/ring.h"
#include "dataplane/transport/fabric/domain.h"
#include "dataplane/transport/onesided/port.h"

namespace tally::transport::fabric {

struct PortOptions {
  DomainOptions domain;
  std::size_t landing_bytes = 0;
  // Where the shard sums what is pushed. Pushes from elsewhere are copied where memory has to be
  // registered.
  std::span<std::byte> tiles{};
  bool hugepages = false;  // for landing memory: reserved ones, where enough are free
};

class Port : public onesided::Port {
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
    std::uint32_t tree = 0;         // what the two call this shard
    std::uint64_t eager_bytes = 0;  // of operations whose results it takes with their completions
  };
  Result<Name> attach(Peer peer, const Client& client);
  void detach(Peer peer) override;
  const std::string& provider() const { return model_->provider(); }
  const std::string& why_provider() const { return model_->why(); }
  const std::string& host() const { return host_; }
  // Of operations that are eager; 0: none are.
  std::size_t eager_bytes() const;

 private:
  struct ReceiveBuffer : Context {
    // The longest message, and a few that have nothing behind.
    alignas(kCacheLine) std::array<std::byte, kLongestMessage + 4 * kMessageBytes> bytes;
  };
  // Sessions that share a domain: of a job, or one.
  struct Group {
    std::unique_ptr<Domain> domain;
    std::size_t sessions = 0;
  };
  // A completion in the making: what goes behind it.
  struct Letter {
    std::uint32_t cookie = 0;
    Operation* message = nullptr;
  };
  struct Connected : Session {
    std::uint32_t group = 0;
    Fid<fid_mr> registered;  // what is received
    Fid<fid_ep> endpoint;
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::uint64_t secret = 0;
    std::uint32_t tree = 0;
    std::uint64_t eager_bytes = 0;
    std::vector<Letter> letters;
    std::uint32_t messages = 0;  // that have nothing behind
    // One: what comes while it is being read waits with the provider. A second one costs each
    // session 10 KiB, and saved nothing that could be measured.
    ReceiveBuffer receive;
  };

  explicit Port(const PortOptions& options);

  static Connected& connected(Session& session) { return static_cast<Connected&>(session); }
  Result<Domain*> domain_of(std::uint32_t group);
  void leave(std::uint32_t group);
  Result<Name> connect(Connected& session, Domain& domain, const Client& client);
  void let_go(Connected& session, Domain& domain);
  Outcome post_first_receive(Connected& session, Domain& domain);
  Outcome post_receive(Connected& session);
  void post_again(Connected& session);
  bool start(Session& session, Operation& operation) override;
  bool send(Session& session, const RingSlot& message) override;
  bool take_eagerly(Session& session, const Push& push) override;
  Letter* letter_of(Connected& session, const Landing& landing);
  ssize_t post(Connected& to, Operation& operation);
  bool send_alone(Connected& to, const MessageBytes& message);
  bool accepted(Connected& session, ssize_t error);
  void progress() override;
  bool may_sleep() override;
  void progress(Domain& domain);
  void on_completion(const fi_cq_data_entry& entry);
  bool on_error(Domain& domain);
  void on_failed_receive(Connected& session, const fi_cq_err_entry& error);
  void on_message(Connected& session, Peer peer, std::span<const std::byte> bytes);

  std::string host_;                 // where endpoints are bound
  onesided::LandingMemory letters_;  // their memory; where it is full, results are written
  std::unique_ptr<Domain> model_;    // of the groups' domains; has no endpoints
  std::map<std::uint32_t, Group> groups_;
};

}  // namespace tally::transport::fabric
