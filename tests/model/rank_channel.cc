#include "tests/model/rank_channel.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "net/address.h"

namespace tally::traces {

CoordinatorListener::CoordinatorListener()
    : path_(fmt::format("/tmp/tally-traces-{}", ::getpid())),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  ::unlink(path_.c_str());
  const auto address = net::parse_address(path_);
  const auto* target = reinterpret_cast<const sockaddr*>(&address->socket);
  if (::bind(listener_.get(), target, sizeof address->socket) != 0 ||
      ::listen(listener_.get(), 8) != 0) {
    throw std::runtime_error("the coordinator of a trace cannot listen");
  }
}

CoordinatorListener::~CoordinatorListener() {
  ::unlink(path_.c_str());
}

UniqueFd CoordinatorListener::accept() const {
  return UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

rpc::RpcChannel RankChannel::open(const CoordinatorListener& listener) {
  auto channel = rpc::RpcChannel::connect(listener.address(), 0);
  if (!channel) throw std::runtime_error(channel.error().message);
  socket_ = listener.accept();
  return std::move(channel).value();
}

void RankChannel::end_sending() const {
  ::shutdown(socket_.get(), SHUT_WR);
}

std::deque<nlohmann::json> RankChannel::read() {
  std::array<char, 4096> bytes;
  while (socket_ && !ended_) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0) break;
    if (count == 0) ended_ = true;
    received_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  std::deque<nlohmann::json> reports;
  for (auto end = received_.find('\n'); end != std::string::npos; end = received_.find('\n')) {
    const auto request = nlohmann::json::parse(received_.substr(0, end));
    received_.erase(0, end + 1);
    const std::string method = request.at("method");
    if (method == "job.next") next_ = request.at("id");
    if (method == "job.report") reports.push_back(request.at("params"));
  }
  return reports;
}

bool RankChannel::answer(nlohmann::json message) {
  if (!next_) return false;
  const nlohmann::json reply = {{"jsonrpc", "2.0"},
                                {"id", *std::exchange(next_, std::nullopt)},
                                {"result", std::move(message)}};
  const std::string text = reply.dump() + "\n";
  return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(text.size());
}

}  // namespace tally::traces
