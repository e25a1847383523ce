// For tests: endpoints of transport fabric on the loopback interface. They send to one other
// endpoint, as the shards of a node do, or as strangers. They make progress only in progress().
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "dataplane/transport/fabric/domain.h"

namespace tally::client {

class FabricSenders {
 public:
  FabricSenders(std::size_t count, const std::string& provider, const transport::fabric::Name& to)
      : domain_(transport::fabric::Domain::open({.address = "127.0.0.1", .provider = provider})
                    .value()),
        to_(domain_->insert(to).value()),
        endpoints_(count) {
    for (auto& endpoint : endpoints_) endpoint = domain_->endpoint().value();
  }

  // False when the provider does not accept the message yet, such as before the connection is made.
  bool send(std::size_t number, std::vector<std::byte> message) {
    Sending& sending = sent_.emplace_back();
    sending.message = std::move(message);
    if (::fi_send(endpoints_[number].get(), sending.message.data(), sending.message.size(), nullptr,
                  to_, &sending.room) == 0) {
      return true;
    }
    sent_.pop_back();
    return false;
  }
  void progress() {
    fi_cq_data_entry entry{};
    const ssize_t count = ::fi_cq_read(&domain_->completions(), &entry, 1);
    if (count == 1) ++ended_;
    fi_cq_err_entry error{};
    if (count != -FI_EAVAIL) return;
    if (::fi_cq_readerr(&domain_->completions(), &error, 0) == 1) ++ended_;
  }
  // Whether every message has been sent or has failed.
  bool idle() const { return ended_ == sent_.size(); }

 private:
  struct Sending {
    fi_context2 room{};
    std::vector<std::byte> message;
  };

  std::unique_ptr<transport::fabric::Domain> domain_;
  const fi_addr_t to_;
  std::deque<Sending> sent_;
  std::size_t ended_ = 0;
  std::vector<transport::fabric::Fid<fid_ep>> endpoints_;
};

}  // namespace tally::client
