// The client's end of the control connection: JSON-RPC 2.0 over a stream socket (Unix or TCP), one
// JSON text per line, on Unix sockets with descriptors attached to a request's first byte
// (docs/control.md). Blocking, with a
// deadline on everything; makes no thread, keeps no global state, logs nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace tally::client {

// Of the control protocol: both ends say theirs when they meet.
inline constexpr std::uint32_t kProtocolVersion = 1;

// Used by one thread at a time. Deadlines are points on the clock of monotonic_now().
class RpcChannel {
 public:
  // Tries until the deadline while nobody listens there (a node that is still starting); at least
  // once, so that a deadline of 0 means now or never. kUnavailable: nobody did. Each attempt has
  // `handshake` for the network's answer, also where the deadline comes before.
  static Result<RpcChannel> connect(std::string_view address, Nanos deadline,
                                    Nanos handshake = 3 * kSecond);

  // Of several addresses, separated by commas, the first where somebody listens now; the error has
  // what each of them said.
  static Result<RpcChannel> connect_first(std::string_view addresses,
                                          Nanos handshake = 3 * kSecond);

  RpcChannel(RpcChannel&&) noexcept = default;
  RpcChannel& operator=(RpcChannel&&) noexcept = default;

  // Sends a request and waits for its result. `fds` are borrowed: the node receives duplicates.
  // The node's refusal comes back with the node's status and message. kUnsupported: it does not
  // know the method. kNodeLost: the connection is gone, and with it the channel. kDeadline: no
  // answer in time; the node may still do what was asked, and the channel can be used on.
  Result<nlohmann::json> call(std::string_view method, nlohmann::json params,
                              std::span<const int> fds, Nanos deadline);

  // As call(), but the answer is taken with answer(): the request's number. The node may hold it.
  Result<std::uint64_t> ask(std::string_view method, nlohmann::json params, Nanos deadline);
  // To that request, without waiting; none: it has not come. Answers to others are dropped.
  std::optional<Result<nlohmann::json>> answer(std::uint64_t id);

  // Becomes readable, or hung up, when the node ends the connection. -1 once the channel is gone.
  int fd() const { return socket_.get(); }
  const std::string& address() const { return address_; }
  // Of the connection's two ends: "10.0.0.1"; empty for a Unix socket.
  std::string local_host() const;
  std::string remote_host() const;

 private:
  RpcChannel(UniqueFd socket, std::string address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  static Result<RpcChannel> connect_tcp(std::string_view address, Nanos deadline, Nanos handshake);

  Result<std::uint64_t> request(std::string_view method, nlohmann::json params,
                                std::span<const int> fds, Nanos deadline);
  Outcome send(std::string_view text, std::span<const int> fds, Nanos deadline);
  Result<std::string> receive_line(Nanos deadline);
  Error lost(std::string_view why);

  UniqueFd socket_;
  std::string address_;
  std::string received_;  // bytes after the last line taken
  std::uint64_t last_id_ = 0;
};

// The node's answer to the method is of another shape than this version knows.
Error unreadable(std::string_view method, const RpcChannel& channel);

}  // namespace tally::client
