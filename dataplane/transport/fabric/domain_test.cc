// The domain, its keys and names, and the loading of libfabric.
#include "dataplane/transport/fabric/domain.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/transport/fabric_transport_fixture.h"

namespace tally::transport::fabric {
namespace {

TEST(FabricKeys, AreNotToBeGuessed) {
  for (const char* provider : {"", "tcp;ofi_rxm"}) {
    auto domain = Domain::open({.address = kHost, .provider = provider}).value();
    ASSERT_TRUE(domain->chooses_keys());
    std::vector<std::byte> memory(4096);
    std::set<std::uint64_t> seen, high;
    for (int i = 0; i < 100; ++i) {
      const auto region = domain->expose(memory.data(), memory.size()).value();
      const std::uint64_t key = ::fi_mr_key(region.get());
      seen.insert(key);
      high.insert(key >> 32);
    }
    EXPECT_EQ(seen.size(), 100u);
    EXPECT_GE(high.size(), 99u) << "all of it is random";
  }
}

TEST(FabricDomain, NamesWhatItCannotUse) {
  const auto nowhere = Domain::open({.address = "203.0.113.7"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("203.0.113.7"), std::string::npos);
  const auto sockets = Domain::open({.address = kHost, .provider = "sockets"});
  ASSERT_FALSE(sockets.ok());
  EXPECT_NE(sockets.error().message.find("sockets"), std::string::npos);
}

TEST(FabricDomain, GivesTheReasonForItsProvider) {
  const auto best = Domain::open({.address = kHost});
  ASSERT_TRUE(best.ok()) << best.error().message;
  EXPECT_EQ((*best)->why().find("verbs"), std::string::npos) << "nobody asked for that";
  const auto named = Domain::open({.address = kHost, .provider = "tcp;ofi_rxm"});
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ((*named)->provider(), "tcp;ofi_rxm");
  EXPECT_EQ((*named)->why(), "as configured");
  // Without a device that has the address, the domain takes the next provider and gives the reason.
  const auto with_verbs = Domain::open({.address = kHost, .verbs = true});
  ASSERT_TRUE(with_verbs.ok()) << with_verbs.error().message;
  if ((*with_verbs)->provider() == "verbs;ofi_rxm") GTEST_SKIP() << "there is one";
  EXPECT_NE((*with_verbs)->why().find("not verbs;ofi_rxm: "), std::string::npos);
}

TEST(FabricDomain, KnowsWhetherAFailedReceiveIsUsedUp) {
  fi_cq_err_entry error{};
  error.flags = FI_RECV | FI_MULTI_RECV;
  for (const int why : std::array<int, 3>{FI_ETRUNC, FI_ENOTCONN, FI_ECANCELED}) {
    error.err = why;
    EXPECT_EQ(used_up(error), std::optional(true)) << why;
  }
  error.flags = FI_RECV;
  EXPECT_EQ(used_up(error), std::optional(false)) << "a connection broke; the rest is still posted";
  error.err = FI_ETRUNC;
  EXPECT_EQ(used_up(error), std::nullopt);
}

// Loading libfabric leaves the program's own handlers alone.
TEST(FabricLibrary, SignalsStayTheProgramsOwn) {
  constexpr std::array kSignals = {SIGTERM, SIGINT, SIGBUS, SIGSEGV, SIGABRT};
  const auto handlers = [&] {
    std::array<sighandler_t, kSignals.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      struct sigaction now {};
      ::sigaction(kSignals[i], nullptr, &now);
      all[i] = now.sa_handler;
    }
    return all;
  };
  const auto before = handlers();
  ASSERT_TRUE(Domain::open({.address = kHost}).ok());
  EXPECT_EQ(handlers(), before);
}

TEST(FabricNames, AsHexadecimalDigits) {
  const Name name{std::byte{0x00}, std::byte{0xab}, std::byte{0x0f}};
  EXPECT_EQ(to_hex(name), "00ab0f");
  EXPECT_EQ(from_hex("00ab0f"), name);
  for (const char* wrong : {"", "0", "0g", "0x12", "ab 1"}) EXPECT_FALSE(from_hex(wrong)) << wrong;
  EXPECT_FALSE(from_hex(std::string(1000, 'a')));
}

}  // namespace
}  // namespace tally::transport::fabric
