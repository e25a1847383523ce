// How the ranks of a job (GPUs of one or several hosts) divide the bytes of an operation: which GPU
// of a group has the group's sum of which elements, and which GPUs of all groups then sum the same
// elements through Tally. Pure: every rank computes the same from the same groups.
//
// A group's shares, side by side, are the bytes of an operation. A *column* is a range of bytes
// that has one owner in every group. So each group has a boundary of columns where its owner
// changes:
//
//   group 0   | gpu0    | gpu1    | gpu2    | gpu3    |
//   group 1   | gpu4              | gpu5              |
//   columns   | 0       | 1       | 2       | 3       |
//
// The owners of a column are the ranks of a job of Tally of its own, in the order of the groups. A
// GPU that owns several columns, such as gpu4, has a session for each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu_bridge/machine/strategy.h"

namespace tally::gpu {

// Of a column in one group.
struct Owner {
  std::uint32_t rank = 0;  // inside the group
  // Where the plan puts the bytes.
  host::VertexId memory = host::kNone;
  host::VertexId nic = host::kNone;
};

struct Column {
  double end = 0;             // part of the bytes before its end
  std::vector<Owner> owners;  // by group
};

// Neighboring columns that have one owner in a group.
struct Piece {
  std::uint32_t owner = 0;  // rank inside the group
  std::size_t first_column = 0;
  std::size_t end_column = 0;
};

struct Elements {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// An operation in chunks, each of which all groups divide.
struct Chunking {
  std::uint64_t count = 0;  // elements of the operation
  std::uint64_t chunk = 0;  // elements of each chunk but the last
  std::uint32_t size = 0;   // chunks

  Elements operator[](std::uint32_t index) const {
    const std::uint64_t first = index * chunk;
    return {first, count - first < chunk ? count - first : chunk};
  }
};

class Division {
 public:
  // An operation has at most so many chunks. Larger operations have larger chunks.
  static constexpr std::uint32_t kMostChunks = 64;

  // The groups of all hosts, in the order that numbers them. kInvalidArgument: the shares of a
  // group do not sum to 1, one is below 0, or one belongs to a GPU of another group.
  static Result<Division> make(const std::vector<host::Group>& groups);

  std::size_t groups() const { return members_.size(); }
  std::uint32_t ranks() const { return ranks_; }  // of all groups
  // All groups have as many GPUs.
  bool is_uniform() const { return uniform_; }
  // The GPUs of a group by their ranks in it: in the order of their shares, those without a share
  // last. NCCL's ranks of the group's communicator have this order.
  const std::vector<host::VertexId>& members(std::size_t group) const { return members_[group]; }
  // The number of a GPU among all groups.
  std::uint32_t rank_of(std::size_t group, std::uint32_t rank) const {
    return first_rank_[group] + rank;
  }

  const std::vector<Column>& columns() const { return columns_; }
  // In ascending order.
  std::vector<std::size_t> columns_of(std::size_t group, std::uint32_t rank) const;
  const std::vector<Piece>& pieces(std::size_t group) const { return pieces_[group]; }

  // Chunks of about `chunk_bytes`.
  Chunking chunks(std::uint64_t count, std::size_t element_bytes, std::size_t chunk_bytes) const;
  // The elements of a chunk of `count` elements that are in columns [first, end).
  Elements elements(std::size_t first_column, std::size_t end_column, std::uint64_t count) const;
  // Whether the group's pieces of a chunk are runs of equal pieces of all ranks in their order, so
  // that ncclReduceScatter and ncclAllGather fit: one call for a run.
  bool is_even(std::size_t group, std::uint64_t count) const;

  // The name of a column's job of Tally: "bert.2" for column 2 of "bert".
  static std::string job_of(const std::string& job, std::size_t column);

 private:
  Outcome add_members(const host::Group& group);
  Outcome add_columns(const std::vector<host::Group>& groups);
  void add_pieces(std::size_t group);
  std::uint64_t boundary(std::size_t column, std::uint64_t count) const;

  std::vector<std::vector<host::VertexId>> members_;  // by group
  std::vector<std::uint32_t> first_rank_;             // by group
  std::vector<std::vector<Piece>> pieces_;            // by group
  std::vector<bool> runs_;  // by group: the owners of the pieces are 0, 1 ... again and again
  std::vector<Column> columns_;
  std::uint32_t ranks_ = 0;
  bool uniform_ = true;
  std::uint64_t unit_ = 1;  // chunks of a multiple of so many elements have even pieces
};

}  // namespace tally::gpu
