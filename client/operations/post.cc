#include "client/operations/post.h"

#include <fmt/format.h>

namespace tally::client {
namespace {

Outcome fits(const Post& post, const char* name, const Region* region, std::uint64_t offset,
             std::uint64_t elements) {
  if (elements == 0) return Unit{};
  if (region == nullptr) {
    return Error{Status::kInvalidArgument,
                 fmt::format("tag {}: {}.region is NULL, and this rank needs {} bytes there: give "
                             "a region",
                             post.notice.tag, name, elements * element_bytes(post.notice.type))};
  }
  const std::uint64_t bytes = elements * element_bytes(post.notice.type);
  if (offset > region->bytes() || bytes > region->bytes() - offset) {
    return Error{Status::kBadRegion,
                 fmt::format("tag {}: {} bytes at offset {} do not fit the {} region of {} bytes: "
                             "is the count, in elements, or the offset, in bytes, right?",
                             post.notice.tag, bytes, offset, name, region->bytes())};
  }
  return Unit{};
}

std::uint64_t place_of(const Region& region, std::uint64_t offset) {
  return (region.host_accessible() ? address_of(region.data()) : region.address()) + offset;
}

}  // namespace

// One memory may be registered as several regions.
bool overlap(const Post& post, const Extents& extents) {
  if (post.in == nullptr || post.out == nullptr) return false;
  const std::uint64_t size = element_bytes(post.notice.type);
  const std::uint64_t in = place_of(*post.in, post.notice.in_offset);
  const std::uint64_t out = place_of(*post.out, post.notice.out_offset);
  return in < out + extents.out.count * size && out < in + extents.in.count * size;
}

Outcome check(const Post& post, const Extents& extents, bool checksums) {
  const std::uint64_t size = element_bytes(post.notice.type);
  if (overlap(post, extents) &&
      place_of(*post.in, post.notice.in_offset) + extents.out.first * size !=
          place_of(*post.out, post.notice.out_offset) + extents.in.first * size) {
    return Error{
        Status::kInvalidArgument,
        fmt::format("tag {}: in and out overlap, but not element on element: in place, out "
                    "must lie over the same elements of in, else apart from it",
                    post.notice.tag)};
  }
  auto in = fits(post, "in", post.in, post.notice.in_offset, extents.in.count);
  if (!in) return in;
  // The post fails, because the caller asked for checksums and would miss them.
  if (checksums && extents.in.count > 0 && !post.in->host_accessible()) {
    return Error{
        Status::kUnsupported,
        fmt::format("tag {}: the in region is memory of a device, of which the CPU can make "
                    "no checksums: open the session without them, or contribute from host "
                    "memory",
                    post.notice.tag)};
  }
  auto out = fits(post, "out", post.out, post.notice.out_offset, extents.out.count);
  if (!out || extents.out.count == 0 || post.out->writable()) return out;
  return Error{
      Status::kInvalidArgument,
      fmt::format("tag {}: the out region, of {} bytes at {}, is read-only memory: it can "
                  "be contributed from; results need memory that can be written",
                  post.notice.tag, post.out->bytes(), static_cast<const void*>(post.out->data()))};
}

Error refusal(Status status, std::uint32_t tag, std::uint32_t credit) {
  if (status == Status::kDuplicate) {
    return {status, fmt::format("tag {} is outstanding: take its completion first", tag)};
  }
  return {status, fmt::format("tag {}: no credit left at its shard ({} operations): take "
                              "completions first",
                              tag, credit)};
}

}  // namespace tally::client
