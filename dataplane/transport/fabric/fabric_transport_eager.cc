// The transport's small operations. Their results gather in a message for each rank. The message
// also carries the completion, because nothing else would keep the two in order.
#include <algorithm>
#include <cstring>

#include "dataplane/transport/fabric/fabric_transport.h"
#include "dataplane/wire/completion.h"

namespace tally::transport::fabric {
namespace {

// How many messages with results a session may have at a time.
constexpr std::size_t kMostEagerResults = 8;
// How many messages go without an answer before each message with an answer.
constexpr std::uint32_t kUnanswered = 63;

}  // namespace

// None with providers that need registered memory, because ofi_rxm lets peers read such memory.
std::size_t FabricTransport::eager_bytes() const {
  return model_->registers() ? 0 : kEagerBytes;
}

bool FabricTransport::take_eagerly(Session& session, const Push& push) {
  Connected& to = connected(session);
  const Landing& landing = push.landing;
  const std::size_t bytes = landing.target.bytes;
  if (landing.operation_bytes > to.eager_bytes || bytes > kEagerBytes) return false;
  const auto remote = session.remote(landing.target);
  EagerResult* eager_result = remote ? message_of(to, landing) : nullptr;
  if (eager_result == nullptr) return false;
  Operation& message = *eager_result->message;
  const Store store{remote->key, remote->address, bytes};
  if (message.bytes + sizeof store + bytes > kLongestMessage) return false;
  std::memcpy(message.local + message.bytes, &store, sizeof store);
  std::memcpy(message.local + message.bytes + sizeof store, push.source, bytes);
  message.bytes += sizeof store + bytes;
  return true;
}

// Returns null when there is no room for another message.
FabricTransport::EagerResult* FabricTransport::message_of(Connected& session,
                                                          const Landing& landing) {
  auto& eager_results = session.eager_results;
  const auto found = std::find_if(
      eager_results.begin(), eager_results.end(),
      [&](const EagerResult& eager_result) { return eager_result.cookie == landing.cookie; });
  if (found != eager_results.end()) return &*found;
  if (eager_results.size() >= kMostEagerResults) return nullptr;
  Operation* message =
      eager_operation(session, landing.target.peer, &eager_results_, kLongestMessage);
  if (message == nullptr) return nullptr;
  message->bytes = kMessageBytes;
  return &eager_results.emplace_back(EagerResult{landing.cookie, message});
}

// Sends a completion with the results that belong to it. No results belong to an operation that has
// failed. The completion of a notice that came twice leaves the results of the first one alone.
bool FabricTransport::send(Session& session, const RingEntry& message) {
  Connected& to = connected(session);
  wire::Completion completion;
  auto& eager_results = to.eager_results;
  const bool ends = !eager_results.empty() && wire::parse(message, completion) == Status::kOk &&
                    completion.status != Status::kDuplicate;
  const auto eager_result =
      !ends ? eager_results.end()
            : std::find_if(eager_results.begin(), eager_results.end(),
                           [&](const EagerResult& one) { return one.cookie == completion.cookie; });
  const Envelope envelope{to.secret, to.tree, 0};
  if (eager_result == eager_results.end() || completion.status != Status::kOk) {
    if (!send_alone(to, seal(envelope, message))) return false;
    if (eager_result != eager_results.end()) end(*eager_result->message, Status::kCancelled);
  } else {
    Operation& operation = *eager_result->message;
    seal_into({operation.local, operation.bytes}, envelope, message);
    if (!accepted(to, post(to, operation))) return false;
    session.started(operation);
  }
  if (eager_result != eager_results.end()) eager_results.erase(eager_result);
  return true;
}

// For a peer that does not read, libfabric's tcp endpoints would keep messages without end.
// Therefore one message in kUnanswered + 1 is an operation. It ends when it and the messages before
// it have left. A session can have only few such operations, and they must end in time
// (StallWatch).
bool FabricTransport::send_alone(Connected& to, const MessageBytes& message) {
  const bool answered = to.messages % (kUnanswered + 1) == kUnanswered;
  if (!answered) {
    if (!accepted(to, ::fi_inject(to.endpoint.get(), message.data(), message.size(), to.address)))
      return false;
  } else {
    Operation* operation = eager_operation(to, to.receive.peer, nullptr, message.size());
    if (operation == nullptr) return false;
    if (!accepted(to, Domain::send(*to.endpoint, to.address, message, operation->room.data()))) {
      end(*operation, Status::kCancelled);
      return false;
    }
    to.started(*operation);
  }
  ++to.messages;
  return true;
}

ssize_t FabricTransport::post(Connected& to, Operation& operation) {
  return ::fi_send(to.endpoint.get(), operation.local, operation.bytes, nullptr, to.address,
                   operation.room.data());
}

// Returns false when the message cannot be sent yet, and when it has refused the session.
bool FabricTransport::accepted(Connected& session, ssize_t error) {
  if (error != 0 && error != -FI_EAGAIN) {
    session.refuse("cannot send: " + model_->library().text(error));
  }
  return error == 0;
}

}  // namespace tally::transport::fabric
