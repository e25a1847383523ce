// The files from which tallyctl plan pipeline plans, both JSON: the profile of a model
// ("tally-profile/1"), and the GPUs of a cluster ("tally-gpus/1"). docs/pipelines.md has every key.
// Unknown keys are errors, and so are keys that are given twice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/plan/pipeline/profile.h"

namespace tally::plan {

inline constexpr std::string_view kProfileFormat = "tally-profile/1";
inline constexpr std::string_view kGpusFormat = "tally-gpus/1";
inline constexpr std::size_t kMaxProfileBytes = 16 << 20;
inline constexpr std::size_t kMaxProfileBlocks = 4096;  // the planner takes fewer, merged ones

struct ProfileFile {
  std::string model;
  double microbatch = 1;  // samples; the figures of blocks are those of one microbatch
  pipeline::Profile profile;
};

// A block without "kept" keeps the output of the block before it; the first keeps nothing. Errors
// name the place, the value and what it must be. Never throws.
Result<ProfileFile> read_profile(std::string_view text);

// Writes one line for each block. read_profile() of the text gives the same file.
std::string write_profile(const ProfileFile& file);

// Equal GPUs of a server. Speeds are bytes per second.
struct GpuSet {
  std::string type;
  double speed = 1;
  double memory = pipeline::kUnlimited;
  std::size_t count = 1;
};

struct Server {
  std::string name;
  double nic = 0;     // to other servers, each way; 0: every pair has its own speed
  double inside = 0;  // between two of its GPUs; 0: it has only one
  std::vector<GpuSet> gpus;
};

// The speed between GPUs of two servers, in place of the slower of their NICs.
struct ServerPair {
  std::size_t first = 0;  // indices in the list of servers
  std::size_t second = 0;
  double speed = 0;
};

struct GpuFile {
  std::vector<Server> servers;  // each name is unique
  std::vector<ServerPair> pairs;
};

Result<GpuFile> read_gpus(std::string_view text);
std::string write_gpus(const GpuFile& file);

// Returns the GPUs as the planner needs them, in the order of the file. Errors: a type that the
// profile does not have; a server, or a pair of servers, whose speed is not known; too many GPUs.
Result<pipeline::Cluster> cluster_of(const GpuFile& file, const pipeline::Profile& profile);

}  // namespace tally::plan
