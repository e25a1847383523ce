// Transport fabric, the node's side: workers are on other machines, over libfabric. Each shard has
// one FabricTransport. A pull is an fi_read into landing memory. A push is an fi_write; it is
// answered when the bytes are placed (FI_DELIVERY_COMPLETE). A completion is a message after that.
// onesided/onesided_transport.h has the part that does not depend on libfabric.
//
// Every session has an endpoint of its own, because only closing the endpoint guarantees that
// nothing is read or written any more in every state of the peer and the network.
//
// Every job has a domain of its own. Reason: libfabric 1.17.0 frees a read's record twice when a
// connection breaks in the middle of its bytes (fixed in 1.17.1). The damage stays in the domain,
// and the job of that domain is over anyway. When endpoints cannot share a domain
// (Domain::for_one), every session has its own.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "base/containers/ring.h"
#include "dataplane/transport/fabric/domain.h"
#include "dataplane/transport/onesided/onesided_transport.h"

namespace tally::transport::fabric {

struct TransportOptions {
  DomainOptions domain;
  std::size_t landing_bytes = 0;
  // The memory into which the shard sums what it pushes; borrowed. When the provider requires
  // registration, pushes from elsewhere are copied.
  std::span<std::byte> tiles{};
  bool hugepages = false;  // use reserved huge pages for landing memory when enough are free
};

// One thread: the shard's.
class FabricTransport : public onesided::OneSidedTransport {
 public:
  // Sets environment variables (take_messages_one_by_one()). Fails as Domain::open() does, and
  // throws as the constructor of onesided::OneSidedTransport does.
  static Result<std::unique_ptr<FabricTransport>> open(const TransportOptions& options);
  ~FabricTransport() override;

  // -- control, on the shard's thread ----------------------------------------------------------
  struct Client {
    std::uint32_t job = 0;            // the peers of a job share a domain and fail together
    std::span<const std::byte> name;  // of the client's endpoint
    std::uint64_t secret = 0;         // of the session; in every Envelope
    std::uint32_t tree = 0;  // Envelope::shard of the messages between client and transport
    // most bytes of an operation whose results the client takes with its completion
    std::uint64_t eager_bytes = 0;
  };
  // Returns the name of the endpoint that serves the peer. Precondition: peer is not attached.
  Result<Name> attach(Peer peer, const Client& client);
  void detach(Peer peer) override;
  const std::string& provider() const { return model_->provider(); }
  const std::string& why_provider() const { return model_->why(); }
  const std::string& host() const { return host_; }
  bool chooses_keys() const { return model_->chooses_keys(); }
  // Most bytes of an eager operation; 0 means that no operation is eager.
  std::size_t eager_bytes() const;

 private:
  struct ReceiveBuffer : Context {
    // Room for the longest message and for four messages with no bytes behind.
    alignas(kCacheLine) std::array<std::byte, kLongestMessage + 4 * kMessageBytes> bytes;
  };
  // The sessions that share a domain: those of a job, or one session.
  struct Group {
    std::unique_ptr<Domain> domain;
    std::size_t sessions = 0;
  };
  // The results that will go behind a completion.
  struct EagerResult {
    std::uint32_t cookie = 0;      // of the completion
    Operation* message = nullptr;  // its local bytes are the message
  };
  struct Connected : Session {
    std::uint32_t group = 0;
    Fid<fid_mr> registered;  // the registration of receive; null when none is required
    Fid<fid_ep> endpoint;
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::uint64_t secret = 0;
    std::uint32_t tree = 0;
    std::uint64_t eager_bytes = 0;
    std::vector<EagerResult> eager_results;
    std::uint32_t messages = 0;  // number of messages sent with no bytes behind
    // There is one buffer: messages that arrive while it is read wait with the provider. A second
    // buffer costs each session 10 KiB and saved nothing that could be measured.
    ReceiveBuffer receive;
  };

  explicit FabricTransport(const TransportOptions& options);

  static Connected& connected(Session& session) { return static_cast<Connected&>(session); }
  Result<Domain*> domain_of(std::uint32_t group);
  void leave(std::uint32_t group);
  Result<Name> connect(Connected& session, Domain& domain, const Client& client);
  void let_go(Connected& session, Domain& domain);
  Outcome post_first_receive(Connected& session, Domain& domain);
  Outcome post_receive(Connected& session);
  void post_again(Connected& session);
  bool start(Session& session, Operation& operation) override;
  bool send(Session& session, const RingEntry& message) override;
  bool take_eagerly(Session& session, const Push& push) override;
  EagerResult* message_of(Connected& session, const Landing& landing);
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

  std::string host_;  // the address to which endpoints are bound
  onesided::LandingMemory
      eager_results_;              // memory of messages; when it is full, results are written
  std::unique_ptr<Domain> model_;  // the groups' domains are made after it; no endpoints
  std::map<std::uint32_t, Group> groups_;  // by job, or by Peer when endpoints cannot share
};

}  // namespace tally::transport::fabric
