// The XDP program in the kernel, over packets that the test gives to it (BPF_PROG_TEST_RUN).
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/system/fd.h"
#include "dataplane/transport/roce/kernel/filter_file.h"
#include "dataplane/transport/roce/wire/ip.h"

namespace tally::transport::roce {
namespace {

using network_order::put;

constexpr MacAddress kMac = {2, 9, 0, 0, 0, 1};
constexpr IpAddress kIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1};
constexpr IpAddress kOtherIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 1, 1};
constexpr IpAddress kIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr std::uint8_t kUdp = 17;
constexpr std::size_t kIpAt = ip::kMacs + ip::kEtherType;

using Bytes = std::vector<std::byte>;

struct PacketOptions {
  IpAddress target = kIpv4;
  MacAddress mac = kMac;
  std::uint8_t protocol = kUdp;
  std::uint16_t port = 4791;
};

Bytes packet(const PacketOptions& options = {}) {
  Bytes bytes(128);
  const bool v4 = is_ipv4(options.target);
  std::memcpy(bytes.data(), options.mac.data(), options.mac.size());
  put(bytes, ip::kMacs, 2, v4 ? ip::kTypeIpv4 : ip::kTypeIpv6);
  constexpr std::size_t kBody = 60;
  const std::size_t header =
      ip::write({.source = options.target, .target = options.target, .protocol = options.protocol},
                kBody, std::span(bytes).subspan(kIpAt));
  put(bytes, kIpAt + header + 2, 2, options.port);
  return bytes;
}

class FilterTest : public ::testing::Test {
 protected:
  void load(const IpAddress& address) {
    const auto file = filter_for(address, kMac);
    libbpf_set_print(nullptr);
    object_.reset(bpf_object__open_mem(file.data(), file.size(), nullptr));
    ASSERT_NE(object_, nullptr);
    if (const int code = bpf_object__load(object_.get()); code == -EPERM || code == -EACCES) {
      GTEST_SKIP() << "XDP programs are not permitted here: run it as root";
    } else {
      ASSERT_EQ(code, 0);
    }
    program_ = bpf_program__fd(bpf_object__next_program(object_.get(), nullptr));
  }
  // As net_af_xdp does with its socket of queue 0.
  void add_socket() {
    socket_.reset(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(socket_) << std::strerror(errno);
    const unsigned queue = 0;
    const int socket = socket_.get();
    const int map = bpf_object__find_map_fd_by_name(object_.get(), "xsks_map");
    ASSERT_EQ(bpf_map_update_elem(map, &queue, &socket, 0), 0) << std::strerror(errno);
  }
  unsigned verdict(const Bytes& frame) const {
    bpf_test_run_opts options{};
    options.sz = sizeof options;
    options.data_in = frame.data();
    options.data_size_in = static_cast<unsigned>(frame.size());
    options.repeat = 1;
    EXPECT_EQ(bpf_prog_test_run_opts(program_, &options), 0) << std::strerror(errno);
    return options.retval;
  }
  bool is_ours(const Bytes& frame) const { return verdict(frame) == XDP_REDIRECT; }
  // Whether the kernel gets the packet after this change.
  template <typename Change>
  bool passes(Bytes frame, const Change& change) const {
    change(frame);
    return verdict(frame) == XDP_PASS;
  }

  struct Closer {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
  };
  std::unique_ptr<bpf_object, Closer> object_;
  int program_ = -1;
  UniqueFd socket_;
};

class FilterWithSocketTest : public FilterTest {
 protected:
  void open(const IpAddress& address) {
    load(address);
    if (!IsSkipped() && !HasFatalFailure()) add_socket();
  }
};

TEST_F(FilterTest, WithoutASocketTheKernelGetsAll) {
  load(kIpv4);
  if (IsSkipped()) return;
  EXPECT_EQ(verdict(packet()), static_cast<unsigned>(XDP_PASS));
  add_socket();
  EXPECT_TRUE(is_ours(packet()));
  socket_.reset();  // as when its process is killed
  EXPECT_EQ(verdict(packet()), static_cast<unsigned>(XDP_PASS));
}

TEST_F(FilterWithSocketTest, ThePortGetsItsPacketsAlone) {
  open(kIpv4);
  if (IsSkipped()) return;
  EXPECT_TRUE(is_ours(packet()));
  EXPECT_FALSE(is_ours(packet({.target = kOtherIpv4})));
  EXPECT_FALSE(is_ours(packet({.target = kIpv6})));
  EXPECT_FALSE(is_ours(packet({.mac = {2, 9, 0, 0, 0, 2}})));
  EXPECT_FALSE(is_ours(packet({.mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}})));
  EXPECT_FALSE(is_ours(packet({.protocol = 6})));
  EXPECT_FALSE(is_ours(packet({.port = 4790})));
}

TEST_F(FilterWithSocketTest, AnIpv6PortToo) {
  open(kIpv6);
  if (IsSkipped()) return;
  EXPECT_TRUE(is_ours(packet({.target = kIpv6})));
  EXPECT_FALSE(is_ours(packet()));
  for (std::size_t word = 0; word < 4; ++word) {
    PacketOptions other{.target = kIpv6};
    other.target[4 * word + 3] ^= 1;
    EXPECT_FALSE(is_ours(packet(other))) << word;
  }
  EXPECT_FALSE(is_ours(packet({.target = kIpv6, .protocol = 44})));  // a fragment
  EXPECT_FALSE(is_ours(packet({.target = kIpv6, .protocol = 0})));   // options
}

TEST_F(FilterWithSocketTest, TheKernelGetsWhatTransportRoceDoesNotRead) {
  open(kIpv4);
  if (IsSkipped()) return;
  const auto first_fragment = [](Bytes& frame) { put(frame, kIpAt + 6, 2, 0x2000); };
  const auto last_fragment = [](Bytes& frame) { put(frame, kIpAt + 6, 2, 8); };
  const auto with_options = [](Bytes& frame) { put(frame, kIpAt, 1, 0x46); };
  const auto other_version = [](Bytes& frame) { put(frame, kIpAt, 1, 0x65); };
  const auto with_tag = [](Bytes& frame) {
    Bytes tag(ip::kTag);
    put(tag, 0, 4, std::uint64_t{ip::kTypeVlan} << 16 | 7);
    frame.insert(frame.begin() + ip::kMacs, tag.begin(), tag.end());
  };
  const auto arp = [](Bytes& frame) { put(frame, ip::kMacs, 2, 0x0806); };
  EXPECT_TRUE(passes(packet(), first_fragment));
  EXPECT_TRUE(passes(packet(), last_fragment));
  EXPECT_TRUE(passes(packet(), with_options));
  EXPECT_TRUE(passes(packet(), other_version));
  EXPECT_TRUE(passes(packet(), with_tag));
  EXPECT_TRUE(passes(packet(), arp));
}

TEST_F(FilterWithSocketTest, TheKernelGetsTruncatedFrames) {
  open(kIpv4);
  if (IsSkipped()) return;
  const Bytes whole = packet();
  constexpr std::size_t kHeaders = kIpAt + ip::kIpv4 + 8;
  EXPECT_TRUE(is_ours(Bytes(whole.begin(), whole.begin() + kHeaders)));
  for (std::size_t bytes = kIpAt; bytes < kHeaders; ++bytes) {
    const Bytes frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_FALSE(is_ours(frame)) << bytes;
  }
}

TEST_F(FilterTest, OtherQueuesThanThoseOfTheSocketsBelongToTheKernel) {
  load(kIpv4);
  if (IsSkipped()) return;
  socket_.reset(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  const unsigned queue = 1;
  const int socket = socket_.get();
  const int map = bpf_object__find_map_fd_by_name(object_.get(), "xsks_map");
  ASSERT_EQ(bpf_map_update_elem(map, &queue, &socket, 0), 0);
  EXPECT_EQ(verdict(packet()), static_cast<unsigned>(XDP_PASS));
}

}  // namespace
}  // namespace tally::transport::roce
