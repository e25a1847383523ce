#include "client/post.h"

#include <fmt/format.h>

namespace tally::client {
namespace {

Outcome fits(const Post& post, const char* name, const Region* region, std::uint64_t offset,
             std::uint64_t elements) {
  if (elements == 0) return Unit{};
  if (region == nullptr) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {}: this rank needs a {} buffer", post.notice.tag, name)};
  }
  const std::uint64_t bytes = elements * element_bytes(post.notice.type);
  if (offset > region->bytes() || bytes > region->bytes() - offset) {
    return Error{Status::kBadRegion,
                 fmt::format("tag {}: {} bytes at offset {} do not fit the {} region of {} bytes",
                             post.notice.tag, bytes, offset, name, region->bytes())};
  }
  return Unit{};
}

}  // namespace

bool overlap(const Post& post, const Extents& extents) {
  if (post.in == nullptr || post.in != post.out) return false;
  const std::uint64_t size = element_bytes(post.notice.type);
  return post.notice.in_offset < post.notice.out_offset + extents.out.count * size &&
         post.notice.out_offset < post.notice.in_offset + extents.in.count * size;
}

Outcome check(const Post& post, const Extents& extents, bool checksums) {
  const std::uint64_t size = element_bytes(post.notice.type);
  if (overlap(post, extents) && post.notice.in_offset + extents.out.first * size !=
                                    post.notice.out_offset + extents.in.first * size) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("tag {}: in and out overlap, but not element on element: in place, out "
                    "must lie over the same elements of in, else apart from it",
                    post.notice.tag)};
  }
  auto in = fits(post, "in", post.in, post.notice.in_offset, extents.in.count);
  if (!in) return in;
  // Left out in silence they would be missed by who asked for them.
  if (checksums && extents.in.count > 0 && !post.in->host_accessible()) {
    return Error{
        Status::kUnsupported,
        fmt::format("tag {}: the in region is memory of a device, of which the CPU can make "
                    "no checksums: open the session without them, or contribute from host "
                    "memory",
                    post.notice.tag)};
  }
  return fits(post, "out", post.out, post.notice.out_offset, extents.out.count);
}

}  // namespace tally::client
