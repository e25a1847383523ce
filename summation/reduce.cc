// From views to passes: cuts the work where a span ends, where accumulators are full and where
// statistics want it, and folds many inputs in groups, then the partials.
#include "summation/reduce.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

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

std::uint32_t divisor_of(const Reduction& reduction) {
  const bool divides = reduction.operation == Operation::kAverage && !reduction.partial_result;
  return divides ? reduction.divisor : 1;
}

// Partial results that are wider than elements.
bool is_wider(const Reduction& reduction) {
  return (reduction.partial_result || !reduction.partials.empty()) &&
         partial_type(reduction.type, reduction.operation) != reduction.type;
}

bool is_simple(const Reduction& reduction) {
  return reduction.inputs.size() + reduction.partials.size() <= kMaxSimpleInputs &&
         reduction.outputs.size() == 1 && reduction.stats.empty() && !reduction.stream_outputs &&
         !is_wider(reduction);
}

bool single_spans(const Reduction& reduction) {
  const auto one = [](View view) { return view.size() == 1; };
  return std::all_of(reduction.inputs.begin(), reduction.inputs.end(), one) &&
         std::all_of(reduction.partials.begin(), reduction.partials.end(), one);
}

// All that is folded, in order: the inputs, then the partials.
class Sources {
 public:
  explicit Sources(const Reduction& reduction)
      : inputs_(reduction.inputs),
        partials_(reduction.partials),
        input_bytes_(element_bytes(reduction.type)),
        partial_bytes_(element_bytes(partial_type(reduction.type, reduction.operation))) {}
  std::size_t count() const { return inputs_.size() + partials_.size(); }
  View view(std::size_t i) const {
    return i < inputs_.size() ? inputs_[i] : partials_[i - inputs_.size()];
  }
  // Of an element.
  std::size_t bytes(std::size_t i) const {
    return i < inputs_.size() ? input_bytes_ : partial_bytes_;
  }

 private:
  std::span<const View> inputs_;
  std::span<const View> partials_;
  std::size_t input_bytes_;
  std::size_t partial_bytes_;
};

// Sources whose spans are one: an element's address is a sum.
class DirectSources : public Sources {
 public:
  using Sources::Sources;
  std::size_t contiguous(std::size_t wanted) const { return wanted; }
  const std::byte* at(std::size_t i, std::size_t element) const {
    return view(i).front().data + element * bytes(i);
  }
  void advance(std::size_t /*elements*/) const {}
};

// Sources of any spans: a cursor for each.
class ScatteredSources : public Sources {
 public:
  explicit ScatteredSources(const Reduction& reduction) : Sources(reduction) {
    for (std::size_t i = 0; i < count(); ++i) {
      cursors_[i] = {0, 0};
      skip_finished_spans(i);
    }
  }
  // Elements, at most `wanted`, that lie within one span of every source.
  std::size_t contiguous(std::size_t wanted) const {
    for (std::size_t i = 0; i < count(); ++i) {
      const std::size_t left = view(i)[cursors_[i].span].bytes - cursors_[i].offset;
      wanted = std::min(wanted, left / bytes(i));
    }
    return wanted;
  }
  const std::byte* at(std::size_t i, std::size_t /*element*/) const {
    return view(i)[cursors_[i].span].data + cursors_[i].offset;
  }
  void advance(std::size_t elements) {
    for (std::size_t i = 0; i < count(); ++i) {
      cursors_[i].offset += elements * bytes(i);
      skip_finished_spans(i);
    }
  }

 private:
  void skip_finished_spans(std::size_t i) {
    Cursor& cursor = cursors_[i];
    const View spans = view(i);
    while (cursor.span < spans.size() && cursor.offset == spans[cursor.span].bytes) {
      cursor = {cursor.span + 1, 0};
    }
  }

  // Only the first count() are ever written or read.
  Cursor cursors_[kMaxInputs];
};

// What is decided once for a reduction.
struct Folding {
  explicit Folding(const Reduction& reduction)
      : sources(reduction.inputs.size() + reduction.partials.size()),
        elements(is_wider(reduction) ? reduction.inputs.size() : sources),
        widen(is_wider(reduction) && reduction.partial_result),
        simple(is_simple(reduction)),
        grouped(!simple && (sources > kMaxGroupInputs || (elements > 0 && elements < sources))) {}

  std::size_t sources;
  std::size_t elements;  // the first so many of them are of the element type, the others wider
  bool widen;            // the outputs are wider
  bool simple;           // in one simple pass
  bool grouped;          // in several, with accumulators between them
};

// The sources from `first` up to `end`, over pass.count elements from `done` on: in groups as even
// as can be, each of at most `most`. `pointers` has room for such a group.
template <class Inputs>
void fold(const PassFunction* by_input_count, const Inputs& inputs, std::size_t first,
          std::size_t end, std::size_t most, bool finish, std::size_t done,
          const std::byte** pointers, Pass& pass) {
  std::size_t groups = (end - first + most - 1) / most;
  for (; first < end; first += pass.input_count, --groups) {
    pass.input_count = (end - first) / groups;
    for (std::size_t i = 0; i < pass.input_count; ++i) pointers[i] = inputs.at(first + i, done);
    pass.resume = first != 0;
    pass.finish = finish && groups == 1;
    by_input_count[pass.input_count - 1](pass);
  }
}

template <class Inputs>
void fold_all(const OperationKernels& passes, const Folding& folding, const Inputs& inputs,
              std::size_t done, const std::byte** pointers, Pass& pass) {
  if (folding.simple) {
    return fold(passes.simple, inputs, 0, folding.sources, kMaxSimpleInputs, true, done, pointers,
                pass);
  }
  fold(passes.general, inputs, 0, folding.elements, kMaxGroupInputs,
       folding.elements == folding.sources, done, pointers, pass);
  fold(passes.partials, inputs, folding.elements, folding.sources, kMaxGroupInputs, true, done,
       pointers, pass);
}

template <class Inputs>
void reduce_from(const Kernels& kernels, const Reduction& reduction) {
  const Chosen chosen = choose(kernels, reduction.type, reduction.operation);
  const Folding folding(reduction);
  const ElementType stored =
      reduction.partial_result ? partial_type(reduction.type, reduction.operation) : reduction.type;
  const std::size_t bytes = element_bytes(stored);
  const bool with_stats = !reduction.stats.empty();
  const std::size_t chunk =
      kAccumulatorBytes / std::max<std::size_t>(4, element_bytes(reduction.type));

  alignas(64) std::byte accumulators[kAccumulatorBytes];
  alignas(64) std::byte scratch[kAccumulatorBytes];
  const std::byte* pointers[kMaxSimpleInputs];
  Pass pass;
  pass.inputs = pointers;
  pass.outputs = reduction.outputs.data();
  pass.output_count = reduction.outputs.size();
  pass.accumulators = accumulators;
  pass.widen = folding.widen;
  pass.divisor = divisor_of(reduction);

  Inputs inputs(reduction);
  Statistics statistics(chosen.squares, reduction.stats);
  std::optional<std::size_t> to_alignment;
  if (reduction.stream_outputs && !reduction.partial_result) {
    to_alignment = elements_to_alignment(reduction, bytes);
  }

  std::size_t filled = 0;  // elements in scratch
  for (std::size_t done = 0; done < reduction.count; done += pass.count) {
    std::size_t wanted = reduction.count - done;
    if (with_stats) wanted = std::min(wanted, chunk - filled);
    if (folding.grouped) wanted = std::min(wanted, chunk);
    pass.stream = false;
    if (to_alignment) {
      // One vector's worth of ordinary stores where a cut left the outputs misaligned.
      const std::size_t line = kStreamAlignment / bytes;
      const std::size_t short_of = (*to_alignment + line - done % line) % line;
      pass.stream = short_of == 0;
      if (short_of != 0) wanted = std::min(wanted, short_of);
    }
    pass.count = inputs.contiguous(wanted);
    pass.output_offset = done * bytes;
    if (with_stats) pass.scratch = scratch + filled * bytes;
    fold_all(chosen.passes, folding, inputs, done, pointers, pass);
    inputs.advance(pass.count);
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
  const std::size_t inputs = reduction.inputs.size();
  const std::size_t partials = reduction.partials.size();
  for (std::size_t i = 0; i < inputs; ++i) pointers[i] = reduction.inputs[i].front().data;
  for (std::size_t i = 0; i < partials; ++i) {
    pointers[inputs + i] = reduction.partials[i].front().data;
  }
  Pass pass;
  pass.inputs = pointers;
  pass.input_count = inputs + partials;
  pass.outputs = reduction.outputs.data();
  pass.output_count = 1;
  pass.count = reduction.count;
  pass.divisor = divisor_of(reduction);
  const Chosen chosen = choose(kernels, reduction.type, reduction.operation);
  chosen.passes.simple[pass.input_count - 1](pass);
}

// Partial results of partials alone: a sum like any other, of their type.
Reduction of_partials(Reduction reduction) {
  reduction.type = partial_type(reduction.type, reduction.operation);
  if (reduction.operation == Operation::kAverage) reduction.operation = Operation::kSum;
  reduction.inputs = std::exchange(reduction.partials, {});
  return reduction;
}

// Each of the views has so many bytes.
bool all_have(std::span<const View> views, std::size_t bytes) {
  return std::all_of(views.begin(), views.end(), [bytes](View view) {
    std::size_t total = 0;
    for (const Span& span : view) total += span.bytes;
    return total == bytes;
  });
}

[[maybe_unused]] bool valid(const Reduction& reduction) {
  const std::size_t sources = reduction.inputs.size() + reduction.partials.size();
  const std::size_t blocks = reduction.partial_result ? 0 : stats_blocks(reduction.count);
  return sources >= 1 && sources <= kMaxInputs && !reduction.outputs.empty() &&
         reduction.outputs.size() <= kMaxInputs && reduction.divisor >= 1 &&
         (reduction.stats.empty() || reduction.stats.size() == blocks) &&
         all_have(reduction.inputs, reduction.count * element_bytes(reduction.type)) &&
         (reduction.partials.empty() ||
          all_have(
              reduction.partials,
              reduction.count * element_bytes(partial_type(reduction.type, reduction.operation))));
}

}  // namespace

void reduce(const Kernels& kernels, const Reduction& reduction) {
  assert(valid(reduction));
  if (reduction.count == 0) return;
  if (reduction.inputs.empty() && reduction.partial_result) {
    return reduce(kernels, of_partials(reduction));
  }
  const DefaultFloatMode mode;
  const bool direct = single_spans(reduction);
  if (direct && is_simple(reduction)) {
    reduce_at_once(kernels, reduction);
  } else if (direct) {
    reduce_from<DirectSources>(kernels, reduction);
  } else {
    reduce_from<ScatteredSources>(kernels, reduction);
  }
  if (reduction.stream_outputs && kernels.drain != nullptr) kernels.drain();
}

}  // namespace tally::summation
