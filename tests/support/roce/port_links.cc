// Links over a port of DPDK. $TALLY_TEST_PORT is DPDK's name of the port, such as
// "net_af_packet0,iface=n0". The port has the address 10.9.0.100. $TALLY_TEST_MTU is RoCE's MTU.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "dataplane/transport/roce/port/test_eal.h"
#include "dataplane/transport/roce/port_link.h"
#include "tests/support/roce/node_links.h"

namespace tally::testing {
namespace {

using namespace transport::roce;

constexpr IpAddress kAddress = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 100};

}  // namespace

std::vector<NodeLink> node_links(std::uint32_t shards) {
  const char* const device = std::getenv("TALLY_TEST_PORT");
  const char* const mtu = std::getenv("TALLY_TEST_MTU");
  if (device == nullptr) throw std::runtime_error("set TALLY_TEST_PORT to DPDK's name of a port");
  if (!start_test_eal()) throw std::runtime_error("the EAL does not start");
  PortOptions options;
  options.device = device;
  options.addresses = {kAddress};
  options.queues = shards;
  auto opened = Port::open(options);
  if (!opened) throw std::runtime_error(opened.error().message);
  const std::shared_ptr<Port> port = std::move(*opened);
  ResolverOptions resolver;
  resolver.mac = port->facts().mac;
  resolver.addresses = {{.address = kAddress}};
  const auto shared = std::make_shared<SharedResolver>(resolver);
  std::vector<NodeLink> links;
  for (std::uint32_t i = 0; i < shards; ++i) {
    NodeLink& made = links.emplace_back();
    made.link = std::make_unique<PortLink>(port, shared, i);
    made.address = kAddress;
    if (mtu != nullptr) made.mtu = static_cast<std::uint32_t>(std::atoi(mtu));
  }
  return links;
}

}  // namespace tally::testing
