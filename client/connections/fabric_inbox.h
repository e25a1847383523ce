// The receive buffers of a connection's endpoint. A buffer takes several messages, and the inbox
// posts it again when it is used up.
//
// There are more buffers than connections, for this reason. A message that finds no receive puts
// its connection into a wait list. Each posted receive wakes the first connection of the list. The
// rest of a buffer behind a message wakes no connection (libfabric 1.17.0, xnet_srx_msg() and
// xnet_alter_mrecv()). Connections begin to wait only when no buffer has any room. The inbox then
// posts all buffers again, which wakes every connection unless all buffers are full again. With
// fewer buffers than connections a connection could wait for ever, although there is room for its
// message. The size of the buffers does not matter for that.
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
  // `connections` is the number of connections that the other side makes to the endpoint. `domain`
  // and `endpoint` are borrowed. The caller must close the endpoint before it destroys the inbox.
  Outcome open(transport::fabric::Domain& domain, fid_ep& endpoint, std::size_t connections);
  // The caller has read the message of a receive of this inbox, or the end of a receive. Posts the
  // buffer again when it is used up. An error means that it cannot be posted again.
  Outcome taken(const fi_cq_data_entry& entry);
  // Whether the context of a completion entry belongs to a receive of this inbox.
  bool has(const void* context) const;
  // A receive has failed. Posts its buffer again when it is used up. Also an error when the
  // provider does not tell whether the buffer is used up.
  Outcome failed(const fi_cq_err_entry& error);

 private:
  // Two messages of the greatest length, or some hundred completions.
  static constexpr std::size_t kBufferBytes = 2 * transport::fabric::kLongestMessage;
  // Buffers beyond the expected connections, because strangers can connect too.
  static constexpr std::size_t kSpare = 2;

  struct Receive {
    fi_context2 room{};
    std::span<std::byte> bytes;
  };

  Outcome post(Receive& receive);

  transport::fabric::Domain* domain_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::unique_ptr<std::byte[]> bytes_;  // the kernel maps pages as messages come
  transport::fabric::Fid<fid_mr> registered_;
  std::vector<Receive> receives_;
};

}  // namespace tally::client
