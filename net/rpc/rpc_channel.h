// The client's end of the control connection: JSON-RPC 2.0 over a stream socket (Unix or TCP), with
// one JSON text per line. On a Unix socket descriptors travel with the first byte of a request
// (docs/control.md). Over TCP the stream is TLS, unless the credentials say otherwise. Calls block,
// but never longer than until their deadline; answer() does not wait. The class makes no thread,
// keeps no global state and logs nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "net/tls/credentials.h"
#include "net/tls/tls_stream.h"

namespace tally::rpc {

// The version of the control protocol. Each end sends its version when they meet.
inline constexpr std::uint32_t kProtocolVersion = 1;

// One thread at a time uses it. Deadlines are times on the clock of monotonic_now().
class RpcChannel {
 public:
  // Connects. Tries again until the deadline while no process listens at the address, because a
  // node may still be starting. Tries at least once, so a deadline of 0 means one attempt.
  // kUnavailable: no process accepted. An attempt over TCP waits for the network's answer until the
  // deadline, but at least for `handshake`. kRefused: the node does not accept what the credentials
  // show, or does not prove that it has the same secret.
  static Result<RpcChannel> connect(std::string_view address, Nanos deadline,
                                    const net::tls::Credentials& credentials = {},
                                    Nanos handshake = 3 * kSecond);

  // Connects to the first of several addresses, separated by commas, at which a process listens
  // now. The error has the message of each address.
  static Result<RpcChannel> connect_first(std::string_view addresses,
                                          const net::tls::Credentials& credentials = {},
                                          Nanos handshake = 3 * kSecond);

  // The same, with what the user of a tool shows (net::tls::Credentials::of_user()). `token`: of
  // the tool's options.
  static Result<RpcChannel> connect_as_user(std::string_view addresses,
                                            Nanos handshake = 3 * kSecond,
                                            std::string_view token = {});

  RpcChannel(RpcChannel&&) noexcept = default;
  RpcChannel& operator=(RpcChannel&&) noexcept = default;

  // Sends a request and waits for its result. `fds` are borrowed; the node receives duplicates.
  // When the node refuses, the error has the node's status and message. kUnsupported: the node does
  // not know the method. kNodeLost: the connection is lost, and the channel cannot be used any
  // more. kDeadline: no answer came in time; the node may still do the request, and the channel
  // stays usable.
  Result<nlohmann::json> call(std::string_view method, nlohmann::json params,
                              std::span<const int> fds, Nanos deadline);

  // As call(), for a request after which the client is known to the node (job.open, session.open).
  // Before it, the node may end the connection with status `again`, to make room for others. The
  // function then connects again, and checks the owner again, until the deadline.
  Result<nlohmann::json> identify(std::string_view method, const nlohmann::json& params,
                                  Nanos deadline);

  // As call(), for a channel that holds nothing at the node: no session, no place in a job, no
  // trace. The node ends such a connection after some time without requests, and may end it to make
  // room for another (docs/control.md). The function then connects once more and repeats the
  // request. The request must therefore be safe to repeat.
  Result<nlohmann::json> query(std::string_view method, const nlohmann::json& params,
                               Nanos deadline);

  // As call(), but returns the number of the request, and answer() takes the result. The node may
  // delay its answer.
  Result<std::uint64_t> ask(std::string_view method, nlohmann::json params, Nanos deadline);
  // Returns the answer to that request without waiting; none when it has not come. Drops answers to
  // other requests.
  std::optional<Result<nlohmann::json>> answer(std::uint64_t id);

  // Ends the connection. Later calls fail as after a loss.
  void hang_up() { socket_.reset(); }

  // Becomes readable, or has a hang-up, when the node ends the connection. -1 after the channel is
  // lost.
  int fd() const { return socket_.get(); }
  const std::string& address() const { return address_; }
  const net::tls::Credentials& credentials() const { return credentials_; }
  // Whether the connection is by TLS, which has shown what the credentials have.
  bool is_secured() const { return stream_.has_value(); }
  // Returns the token for a request's `token`. Empty when TLS has shown it already, or there is
  // none.
  std::string token() const { return stream_ ? "" : credentials_.text(); }
  // Whether the process at the other end of a Unix socket may get a token or memory: it belongs to
  // root, to this user, or to the user `tally` or $TALLY_NODE_USER. Always ok over TCP, where TLS
  // has proved more.
  Outcome check_owner() const;
  // The hosts of the two ends, such as "10.0.0.1"; empty for a Unix socket.
  std::string local_host() const;
  std::string remote_host() const;

 private:
  RpcChannel(UniqueFd socket, std::string address, net::tls::Credentials credentials)
      : socket_(std::move(socket)),
        address_(std::move(address)),
        credentials_(std::move(credentials)) {}

  static Result<RpcChannel> connect_tcp(std::string_view address, Nanos deadline,
                                        const net::tls::Credentials& credentials, Nanos handshake);
  Outcome secure(Nanos deadline);
  Error no_handshake() const;

  Result<std::uint64_t> request(std::string_view method, nlohmann::json params,
                                std::span<const int> fds, Nanos deadline);
  Outcome send(std::string_view text, std::span<const int> fds, Nanos deadline);
  Result<std::string> receive_line(Nanos deadline);
  Error lost(std::string_view why);
  Error no_answer() const;

  UniqueFd socket_;
  std::string address_;
  net::tls::Credentials credentials_;
  std::optional<net::tls::Stream> stream_;  // set when the connection is by TLS
  std::string received_;                    // bytes after the last line that was taken
  std::uint64_t last_id_ = 0;
};

// The error for an answer to `method` that this version cannot read.
Error unreadable(std::string_view method, const RpcChannel& channel);

}  // namespace tally::rpc
