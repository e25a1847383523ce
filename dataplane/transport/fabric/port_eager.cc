// The port's small operations: their results gather in a letter for each rank, and go with its
// completion in one message, since nothing else would keep the two in order.
#include <algorithm>
#include <cstring>

#include "dataplane/transport/fabric/port.h"
#include "dataplane/wire/completion.h"

namespace tally::transport::fabric {
namespace {

// Begun at a time for one session.
constexpr std::size_t kMostLetters = 8;
// Messages that go without an answer, after each that has one.
constexpr std::uint32_t kUnanswered = 63;

}  // namespace

// Not with providers that want to know what is sent: ofi_rxm lets peers read such memory.
std::size_t Port::eager_bytes() const {
  return model_->registers() ? 0 : kEagerBytes;
}

bool Port::take_eagerly(Session& session, const Push& push) {
  Connected& to = connected(session);
  const Landing& landing = push.landing;
  const std::size_t bytes = landing.target.bytes;
  if (landing.operation_bytes > to.eager_bytes || bytes > kEagerBytes) return false;
  Letter* letter = letter_of(to, landing);
  if (letter == nullptr) return false;
  Operation& message = *letter->message;
  const auto [address, key] = remote(landing.target);
  const Store store{key, address, bytes};
  if (message.bytes + sizeof store + bytes > kLongestMessage) return false;
  std::memcpy(message.local + message.bytes, &store, sizeof store);
  std::memcpy(message.local + message.bytes + sizeof store, push.source, bytes);
  message.bytes += sizeof store + bytes;
  return true;
}

// Null where there is no room for another.
Port::Letter* Port::letter_of(Connected& session, const Landing& landing) {
  auto& letters = session.letters;
  const auto found = std::find_if(letters.begin(), letters.end(), [&](const Letter& letter) {
    return letter.cookie == landing.cookie;
  });
  if (found != letters.end()) return &*found;
  if (letters.size() >= kMostLetters) return nullptr;
  Operation* message = eager_operation(session, landing.target, &letters_, kLongestMessage);
  if (message == nullptr) return nullptr;
  message->bytes = kMessageBytes;
  return &letters.emplace_back(Letter{landing.cookie, message});
}

// A completion with what belongs to it; of an operation that has failed nothing does, and what
// comes of a notice that came twice leaves the first one's alone.
bool Port::send(Session& session, const RingSlot& message) {
  Connected& to = connected(session);
  wire::Completion completion;
  auto& letters = to.letters;
  const bool ends = !letters.empty() && wire::parse(message, completion) == Status::kOk &&
                    completion.status != Status::kDuplicate;
  const auto letter =
      !ends ? letters.end() : std::find_if(letters.begin(), letters.end(), [&](const Letter& one) {
        return one.cookie == completion.cookie;
      });
  const Envelope envelope{to.secret, to.tree, 0};
  if (letter == letters.end() || completion.status != Status::kOk) {
    if (!send_alone(to, seal(envelope, message))) return false;
    if (letter != letters.end()) end(*letter->message, Status::kCancelled);
  } else {
    Operation& operation = *letter->message;
    seal_into({operation.local, operation.bytes}, envelope, message);
    if (!accepted(to, post(to, operation))) return false;
    under_way(session, operation);
  }
  if (letter != letters.end()) letters.erase(letter);
  return true;
}

// For a peer that reads nothing libfabric's tcp endpoints would keep messages without end. So now
// and then one is an operation, which ends when it has left, after those before it: a session has
// few of these, and has to get on with them.
bool Port::send_alone(Connected& to, const MessageBytes& message) {
  const bool answered = to.messages % (kUnanswered + 1) == kUnanswered;
  if (!answered) {
    if (!accepted(to, ::fi_inject(to.endpoint.get(), message.data(), message.size(), to.address)))
      return false;
  } else {
    Operation* operation = eager_operation(to, {to.receive.peer, 0, 0, message.size()}, nullptr, 0);
    if (operation == nullptr) return false;
    if (!accepted(to, Domain::send(*to.endpoint, to.address, message, operation->room.data()))) {
      end(*operation, Status::kCancelled);
      return false;
    }
    under_way(to, *operation);
  }
  ++to.messages;
  return true;
}

ssize_t Port::post(Connected& to, Operation& operation) {
  return ::fi_send(to.endpoint.get(), operation.local, operation.bytes, nullptr, to.address,
                   operation.room.data());
}

// False: not yet; or never, and the session is refused.
bool Port::accepted(Connected& session, ssize_t error) {
  if (error != 0 && error != -FI_EAGAIN) {
    refuse(session, "cannot send: " + model_->library().text(error));
  }
  return error == 0;
}

}  // namespace tally::transport::fabric
