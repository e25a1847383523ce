#include "dataplane/engine/tiles/checksums.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/checksums.h"

namespace tally::engine {
namespace {

TEST(Checksums, SeeEveryByteOfEveryGranule) {
  const Crc32c& crc32c = **Crc32c::open();
  const protocol::Shape shape{
      wire::Kind::kAllReduce, ElementType::kI8, Operation::kSum, 0, 1, 10'000};
  std::vector<std::byte> bytes(10'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> given(protocol::checksum_bytes(shape, 0));
  testing::write_checksums(shape, 0, bytes.data(), given.data());
  const Span checksums[] = {{given.data(), 5}, {given.data() + 5, 7}};  // in odd pieces
  const Span pieces[] = {{bytes.data(), 100}, {bytes.data() + 100, 0}, {bytes.data() + 100, 9900}};
  EXPECT_TRUE(intact(crc32c, pieces, checksums, 4096, false));
  for (const std::size_t at : {0u, 99u, 4095u, 4096u, 8191u, 8192u, 9999u}) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_FALSE(intact(crc32c, pieces, checksums, 4096, at % 2 == 0)) << "byte " << at;
    bytes[at] ^= std::byte{0x10};
  }
  EXPECT_FALSE(intact(crc32c, pieces, View(checksums).first(1), 4096, false)) << "too few";
}

}  // namespace
}  // namespace tally::engine
