// What the messages to a link's endpoint are received in: buffers that take message after message,
// each posted again once it is used up.
//
// There are more of them than connections. A message that finds no receive makes its connection
// wait in a list; each receive that is posted wakes the first of the list, and what is left of a
// buffer behind a message wakes nobody (libfabric 1.17.0, xnet_srx_msg() and xnet_alter_mrecv()).
// Connections begin to wait only while nothing is left of any buffer. So all buffers are posted
// again after that, and by then have woken every connection, or nothing is left once more and it
// begins anew. With fewer buffers than connections one of these could stand still for ever, with
// room for its message. How large the buffers are does not matter for that.
//
// One thread at a time.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::client {

class FabricInbox {
 public:
  // `connections`: that the other side makes to the endpoint. Both are borrowed, and the endpoint
  // is closed before this goes.
  Outcome open(transport::fabric::Domain& domain, fid_ep& endpoint, std::size_t connections);
  // A message of a receive of this one's, or its end, has been looked at. An error: it cannot be
  // posted again.
  Outcome taken(const fi_cq_data_entry& entry);
  // The context of an entry is that of a receive of this one's.
  bool has(const void* context) const;
  // One has failed. Likewise, and where the provider does not say whether it has to be.
  Outcome failed(const fi_cq_err_entry& error);

 private:
  // Two letters of the longest, or some hundred completions.
  static constexpr std::size_t kBufferBytes = 2 * transport::fabric::kLongestMessage;
  // Strangers have connections too.
  static constexpr std::size_t kSpare = 2;

  struct Receive {
    fi_context2 room{};
    std::span<std::byte> bytes;
  };

  Outcome post(Receive& receive);

  transport::fabric::Domain* domain_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::unique_ptr<std::byte[]> bytes_;  // pages are taken as messages come
  transport::fabric::Fid<fid_mr> registered_;
  std::vector<Receive> receives_;
};

}  // namespace tally::client
