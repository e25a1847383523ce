// The links to the shards of a node that is reached by several of this machine's NICs: one link for
// each NIC, behind one. A lane is what the session calls a shard; each link counts its own from 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "client/link.h"

namespace tally::client {

// One of them: for these lanes, in order.
struct RailLink {
  std::unique_ptr<Link> link;
  std::vector<std::uint32_t> lanes;
};

class RailsLink final : public Link {
 public:
  // Precondition: links of one transport, over a network; their lanes are 0 .. n-1, each once.
  static Result<std::unique_ptr<RailsLink>> make(std::vector<RailLink> rails);

  std::string_view transport() const override { return rails_.front().link->transport(); }
  std::string description() const override;
  std::uint32_t shards() const override { return static_cast<std::uint32_t>(places_.size()); }
  bool send(std::uint32_t lane, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t lane, const RingSlot& message) override;
  std::size_t eager_bytes() const override;
  std::size_t receive(std::uint32_t lane, std::span<RingSlot> out) override;
  bool broken() const override;
  // Says besides which key a lane's shard has to use: `keys`, by lane.
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region& region) override;
  bool wants_shared_memory() const override { return false; }
  bool has_adapter() const override { return rails_.front().link->has_adapter(); }
  bool arm(Nanos until) override;
  void disarm() override;
  int fd() const override { return epoll_.get(); }
  bool hear() override;
  std::string why_gone() const override;
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  struct Place {
    std::uint32_t rail = 0;
    std::uint32_t shard = 0;  // of its link
  };

  RailsLink() = default;

  std::vector<RailLink> rails_;
  std::vector<Place> places_;  // by lane
  UniqueFd epoll_;             // of their descriptors
  std::size_t gone_ = 0;       // the rail whose link has heard it last
};

}  // namespace tally::client
