// The kernel's tables by its routing socket (rtnetlink(7)), for one interface and one of its
// addresses. libmnl writes and reads the messages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "dataplane/transport/roce/kernel/kernel_tables.h"

struct mnl_socket;

namespace tally::transport::roce {

class Rtnetlink final : public KernelTables {
 public:
  // interface: the kernel's number of it.
  static Result<std::unique_ptr<Rtnetlink>> open(unsigned interface, const IpAddress& own);

  RouteAnswer route_to(const IpAddress& target) override;
  HopEntry entry(const IpAddress& hop) override;
  void use(const IpAddress& hop) override;

 private:
  struct Closer {
    void operator()(mnl_socket* socket) const;
  };
  class Request;

  Rtnetlink(std::unique_ptr<mnl_socket, Closer> socket, unsigned interface, const IpAddress& own)
      : socket_(std::move(socket)), interface_(interface), own_(own) {}
  // Sends the request and waits for the kernel's answer, which it writes over the request. Returns
  // the answer; empty: there is none.
  std::span<const std::byte> exchange(Request& request);

  std::unique_ptr<mnl_socket, Closer> socket_;
  unsigned interface_;
  IpAddress own_;
  unsigned sequence_ = 0;
};

}  // namespace tally::transport::roce
