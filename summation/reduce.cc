// From views to passes: cuts the work where a span ends, where a partial is full and where
// statistics want it, and folds many inputs in groups.
#include "summation/reduce.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "summation/float_mode.h"
#include "summation/kernel.h"

namespace tally::summation {
namespace {

constexpr std::size_t kStreamAlignment = 64;

// Where a walk over one input stands.
struct Cursor {
  std::size_t span;
  std::size_t offset;
};

// The functions that one reduction uses.
struct Chosen {
  OperationKernels passes;
  SquaresFunction squares;
};

Chosen choose(const Kernels& kernels, ElementType type, Operation operation) {
  const auto t = static_cast<std::size_t>(type);
  const auto o = static_cast<std::size_t>(operation);
  const TypeKernels* of_type = kernels.type[t];
  if (of_type == nullptr || of_type->operation[o].simple == nullptr)
    of_type = scalar_kernels.type[t];
  return {of_type->operation[o], of_type->squares};
}

// Folds the 16 lanes of a block in one fixed order: lane i += lane i + 8, then + 4, + 2, + 1.
class Statistics {
 public:
  Statistics(SquaresFunction squares, std::span<BlockStats> blocks)
      : squares_(squares), blocks_(blocks) {}

  // The elements from `first` on; calls are in order, and only a block's last part may be no
  // multiple of kSquareLanes.
  void add(const std::byte* elements, std::size_t first, std::size_t count, bool last) {
    nonfinite_ += squares_(elements, count, lanes_);
    const std::size_t end = first + count;
    if (end % kStatsBlock != 0 && !last) return;
    for (std::size_t width = kSquareLanes / 2; width != 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) lanes_[i] += lanes_[i + width];
    }
    blocks_[(end - 1) / kStatsBlock] = {lanes_[0], nonfinite_};
    std::fill_n(lanes_, kSquareLanes, 0.0);
    nonfinite_ = 0;
  }

 private:
  SquaresFunction squares_;
  std::span<BlockStats> blocks_;
  double lanes_[kSquareLanes] = {};
  std::uint64_t nonfinite_ = 0;
};

// Elements until all outputs are aligned for streaming; nullopt if they never are together.
std::optional<std::size_t> elements_to_alignment(const Reduction& reduction, std::size_t bytes) {
  const auto misalignment = [](const std::byte* p) {
    return reinterpret_cast<std::uintptr_t>(p) % kStreamAlignment;
  };
  const std::size_t first = misalignment(reduction.outputs[0]);
  if (first % bytes != 0) return std::nullopt;
  for (const std::byte* output : reduction.outputs) {
    if (misalignment(output) != first) return std::nullopt;
  }
  return (kStreamAlignment - first) % kStreamAlignment / bytes;
}

bool is_simple(const Reduction& reduction) {
  return reduction.inputs.size() <= kMaxSimpleInputs && reduction.outputs.size() == 1 &&
         reduction.stats.empty() && !reduction.stream_outputs;
}

std::uint32_t divisor_of(const Reduction& reduction) {
  return reduction.operation == Operation::kAverage ? reduction.divisor : 1;
}

bool single_spans(const Reduction& reduction) {
  return std::all_of(reduction.inputs.begin(), reduction.inputs.end(),
                     [](View view) { return view.size() == 1; });
}

// Inputs whose spans are one: an element's address is a sum.
class DirectInputs {
 public:
  explicit DirectInputs(const Reduction& reduction) : inputs_(reduction.inputs) {}
  std::size_t contiguous(std::size_t wanted) const { return wanted; }
  const std::byte* at(std::size_t input, std::size_t offset) const {
    return inputs_[input].front().data + offset;
  }
  void advance(std::size_t /*bytes*/) const {}

 private:
  std::span<const View> inputs_;
};

// Inputs of any spans: a cursor for each.
class ScatteredInputs {
 public:
  explicit ScatteredInputs(const Reduction& reduction) : inputs_(reduction.inputs) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      cursors_[i] = {0, 0};
      skip_finished_spans(i);
    }
  }
  // Bytes, at most `wanted`, that lie within one span of every input.
  std::size_t contiguous(std::size_t wanted) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      wanted = std::min(wanted, inputs_[i][cursors_[i].span].bytes - cursors_[i].offset);
    }
    return wanted;
  }
  const std::byte* at(std::size_t input, std::size_t /*offset*/) const {
    return inputs_[input][cursors_[input].span].data + cursors_[input].offset;
  }
  void advance(std::size_t bytes) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      cursors_[i].offset += bytes;
      skip_finished_spans(i);
    }
  }

 private:
  void skip_finished_spans(std::size_t i) {
    Cursor& cursor = cursors_[i];
    while (cursor.span < inputs_[i].size() && cursor.offset == inputs_[i][cursor.span].bytes) {
      cursor = {cursor.span + 1, 0};
    }
  }

  std::span<const View> inputs_;
  // Only the first inputs_.size() are ever written or read.
  Cursor cursors_[kMaxInputs];
};

// All inputs over pass.count elements: at once if `simple`, else in groups as even as can be.
// `pointers` has room for either.
template <class Inputs>
void fold(const Chosen& chosen, const Inputs& inputs, std::size_t input_count, std::size_t offset,
          bool simple, const std::byte** pointers, Pass& pass) {
  const PassFunction* by_input_count = simple ? chosen.passes.simple : chosen.passes.general;
  std::size_t groups = simple ? 1 : (input_count + kMaxGroupInputs - 1) / kMaxGroupInputs;
  for (std::size_t first = 0; first < input_count; first += pass.input_count, --groups) {
    pass.input_count = (input_count - first) / groups;
    for (std::size_t i = 0; i < pass.input_count; ++i) pointers[i] = inputs.at(first + i, offset);
    pass.resume = first != 0;
    pass.finish = groups == 1;
    by_input_count[pass.input_count - 1](pass);
  }
}

template <class Inputs>
void reduce_from(const Kernels& kernels, const Reduction& reduction) {
  const Chosen chosen = choose(kernels, reduction.type, reduction.operation);
  const std::size_t bytes = element_bytes(reduction.type);
  const bool simple = is_simple(reduction);
  const bool grouped = !simple && reduction.inputs.size() > kMaxGroupInputs;
  const bool with_stats = !reduction.stats.empty();
  const std::size_t chunk = kPartialBytes / std::max<std::size_t>(4, bytes);

  alignas(64) std::byte partial[kPartialBytes];
  alignas(64) std::byte scratch[kPartialBytes];
  const std::byte* pointers[kMaxSimpleInputs];
  Pass pass;
  pass.inputs = pointers;
  pass.outputs = reduction.outputs.data();
  pass.output_count = reduction.outputs.size();
  pass.partial = partial;
  pass.divisor = divisor_of(reduction);

  Inputs inputs(reduction);
  Statistics statistics(chosen.squares, reduction.stats);
  std::optional<std::size_t> to_alignment;
  if (reduction.stream_outputs) to_alignment = elements_to_alignment(reduction, bytes);

  std::size_t filled = 0;  // elements in scratch
  for (std::size_t done = 0; done < reduction.count; done += pass.count) {
    std::size_t wanted = reduction.count - done;
    if (with_stats) wanted = std::min(wanted, chunk - filled);
    if (grouped) wanted = std::min(wanted, chunk);
    pass.stream = false;
    if (to_alignment) {
      // One vector's worth of ordinary stores where a cut left the outputs misaligned.
      const std::size_t line = kStreamAlignment / bytes;
      const std::size_t short_of = (*to_alignment + line - done % line) % line;
      pass.stream = short_of == 0;
      if (short_of != 0) wanted = std::min(wanted, short_of);
    }
    pass.count = inputs.contiguous(wanted * bytes) / bytes;
    pass.output_offset = done * bytes;
    if (with_stats) pass.scratch = scratch + filled * bytes;
    fold(chosen, inputs, reduction.inputs.size(), done * bytes, simple, pointers, pass);
    inputs.advance(pass.count * bytes);
    if (!with_stats) continue;
    filled += pass.count;
    const bool last = done + pass.count == reduction.count;
    if (filled == chunk || last) {
      statistics.add(scratch, done + pass.count - filled, filled, last);
      filled = 0;
    }
  }
}

// The common case, with nothing around it: small reductions consist of such overhead.
void reduce_at_once(const Kernels& kernels, const Reduction& reduction) {
  const std::byte* pointers[kMaxSimpleInputs];
  const std::size_t count = reduction.inputs.size();
  for (std::size_t i = 0; i < count; ++i) pointers[i] = reduction.inputs[i].front().data;
  Pass pass;
  pass.inputs = pointers;
  pass.input_count = count;
  pass.outputs = reduction.outputs.data();
  pass.output_count = 1;
  pass.count = reduction.count;
  pass.divisor = divisor_of(reduction);
  const Chosen chosen = choose(kernels, reduction.type, reduction.operation);
  chosen.passes.simple[count - 1](pass);
}

[[maybe_unused]] bool valid(const Reduction& reduction) {
  const std::size_t bytes = reduction.count * element_bytes(reduction.type);
  const auto covers = [&](View view) {
    std::size_t total = 0;
    for (const Span& span : view) total += span.bytes;
    return total == bytes;
  };
  const std::size_t blocks = (reduction.count + kStatsBlock - 1) / kStatsBlock;
  return !reduction.inputs.empty() && reduction.inputs.size() <= kMaxInputs &&
         !reduction.outputs.empty() && reduction.outputs.size() <= kMaxInputs &&
         reduction.divisor >= 1 && (reduction.stats.empty() || reduction.stats.size() == blocks) &&
         std::all_of(reduction.inputs.begin(), reduction.inputs.end(), covers);
}

}  // namespace

void reduce(const Kernels& kernels, const Reduction& reduction) {
  assert(valid(reduction));
  if (reduction.count == 0) return;
  const DefaultFloatMode mode;
  const bool direct = single_spans(reduction);
  if (direct && is_simple(reduction)) {
    reduce_at_once(kernels, reduction);
  } else if (direct) {
    reduce_from<DirectInputs>(kernels, reduction);
  } else {
    reduce_from<ScatteredInputs>(kernels, reduction);
  }
  if (reduction.stream_outputs && kernels.drain != nullptr) kernels.drain();
}

}  // namespace tally::summation
