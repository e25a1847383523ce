#include "tests/roce/target/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/units.h"
#include "dataplane/transport/roce/port/shared_resolver.h"
#include "dataplane/transport/roce/port_link.h"

namespace tally::transport::roce::target {
namespace {

constexpr std::uint32_t kHeaders = 80;    // IPv6, UDP, BTH, RETH and ICRC around a payload
constexpr std::uint32_t kFramesMib = 64;  // of the EAL's memory, for frames
constexpr std::uint32_t kLargestMtu = 4096;
constexpr std::size_t kPage = 4096;

// "0000:3b:00.0", with or without arguments behind a comma.
bool is_pci(const std::string& device) {
  const std::string name = device.substr(0, device.find(','));
  return name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos &&
         name.find(':') != std::string::npos;
}

std::unique_ptr<Link> make_link(const std::shared_ptr<Port>& port, const Options& options) {
  ResolverOptions resolver;
  resolver.mac = port->facts().mac;
  resolver.vlan = options.vlan;
  resolver.addresses = {options.address};
  return std::make_unique<PortLink>(port, std::make_shared<SharedResolver>(resolver), 0);
}

}  // namespace

Result<std::unique_ptr<Target>> Target::open(const Options& options) {
  std::unique_ptr<Target> target(new Target(options));
  if (auto done = target->start(); !done) return done.error();
  return target;
}

Target::~Target() {
  pairs_.clear();
  for (Arrival& arrival : burst_) arrival = Arrival{};
}

Outcome Target::start() {
  engine::EalOptions eal;
  eal.memory_mib = static_cast<std::uint32_t>((options_.memory + kMib - 1) / kMib) + kFramesMib;
  if (is_pci(options_.device)) eal.pci_device = options_.device;
  auto started = engine::Eal::start(eal);
  if (!started) return started.error();
  eal_ = std::move(*started);
  auto memory = eal_->allocate(options_.memory, kPage);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  window_.emplace(std::span(memory_.data(), memory_.size()));

  PortOptions options;
  options.device = options_.device;
  options.addresses = {options_.address.address};
  options.vlan = options_.vlan;
  auto port = Port::open(options);
  if (!port) return port.error();
  port_ = std::move(*port);
  link_ = make_link(port_, options_);
  mtu_ = options_.mtu == 0 ? kLargestMtu : options_.mtu;
  while (options_.mtu == 0 && mtu_ > 256 && mtu_ + kHeaders > port_->facts().mtu) mtu_ /= 2;
  if (mtu_ + kHeaders > port_->facts().mtu) {
    return invalid(fmt::format("--mtu is {}, and port {} takes packets of {} bytes: give less",
                               mtu_, options_.device, port_->facts().mtu));
  }
  return Unit{};
}

void Target::make_pairs() {
  pairs_.clear();
  std::size_t i = 0;
  std::generate_n(memory_.data(), memory_.size(), [&] {
    ++i;
    return static_cast<std::byte>(i * 7 + i / 256);
  });
  for (std::uint32_t index = 0; index < options_.pairs; ++index) {
    pairs_.push_back(std::make_unique<QueuePair>(*link_, options_.address.address, *window_,
                                                 window_->part(index, options_.pairs),
                                                 window_->key()));
  }
}

bool Target::progress() {
  const Nanos now = monotonic_now();
  const std::size_t count = link_->receive(burst_, now);
  for (Arrival& arrival : std::span(burst_).first(count)) {
    const auto found = std::find_if(pairs_.begin(), pairs_.end(),
                                    [&](const auto& pair) { return pair->is_for(arrival.packet); });
    if (found != pairs_.end()) (*found)->receive(arrival, now);
  }
  bool has_work = count > 0;
  for (const auto& pair : pairs_) has_work = pair->progress(now) || has_work;
  link_->flush();
  // The other end may need this core.
  if (!has_work) std::this_thread::yield();
  return has_work;
}

std::string Target::failure() const {
  for (const auto& pair : pairs_) {
    if (std::string text = pair->failure(); !text.empty()) return text;
  }
  return "";
}

}  // namespace tally::transport::roce::target
