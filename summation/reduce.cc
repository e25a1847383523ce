// From views to passes. Cuts the work where a span ends, where accumulators are full, and where
// statistics need it. Folds `before` first, then the inputs (many inputs in groups), then the
// partials.
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

// The position of a walk over one input.
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

  // Adds the elements from `first` on. Calls are in order. Only the last part of a block may have a
  // count that is not a multiple of kSquareLanes.
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

// Returns the number of elements before all outputs are aligned for streaming; nullopt when they
// are never aligned together.
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

// True when the reduction has partial results and they are wider than elements.
bool is_wider(const Reduction& reduction) {
  return (reduction.partial_result || reduction.before != nullptr || !reduction.partials.empty()) &&
         partial_type(reduction.type, reduction.operation) != reduction.type;
}

std::size_t count_of_sources(const Reduction& reduction) {
  return (reduction.before != nullptr ? 1 : 0) + reduction.inputs.size() +
         reduction.partials.size();
}

bool is_simple(const Reduction& reduction) {
  return count_of_sources(reduction) <= kMaxSimpleInputs && reduction.outputs.size() == 1 &&
         reduction.stats.empty() && !reduction.stream_outputs && !is_wider(reduction);
}

bool single_spans(const Reduction& reduction) {
  const auto one = [](View view) { return view.size() == 1; };
  return std::all_of(reduction.inputs.begin(), reduction.inputs.end(), one) &&
         std::all_of(reduction.partials.begin(), reduction.partials.end(), one);
}

// All sources of a reduction, in order: `before`, the inputs, the partials.
class Sources {
 public:
  explicit Sources(const Reduction& reduction)
      : inputs_(reduction.inputs),
        partials_(reduction.partials),
        input_bytes_(element_bytes(reduction.type)),
        partial_bytes_(element_bytes(partial_type(reduction.type, reduction.operation))),
        before_{reduction.before, reduction.count * partial_bytes_},
        first_input_(reduction.before != nullptr ? 1 : 0),
        first_partial_(first_input_ + inputs_.size()) {}
  // Not copyable, because view() points into the object.
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;
  std::size_t count() const { return first_partial_ + partials_.size(); }
  View view(std::size_t i) const {
    if (i < first_input_) return {&before_, 1};
    return i < first_partial_ ? inputs_[i - first_input_] : partials_[i - first_partial_];
  }
  // Returns the bytes of one element of a source.
  std::size_t bytes(std::size_t i) const {
    return i >= first_input_ && i < first_partial_ ? input_bytes_ : partial_bytes_;
  }

 private:
  std::span<const View> inputs_;
  std::span<const View> partials_;
  std::size_t input_bytes_;
  std::size_t partial_bytes_;
  Span before_;
  std::size_t first_input_;
  std::size_t first_partial_;
};

// Sources that have one span each: an element's address is a sum.
class DirectSources : public Sources {
 public:
  using Sources::Sources;
  std::size_t contiguous(std::size_t wanted) const { return wanted; }
  const std::byte* at(std::size_t i, std::size_t element) const {
    return view(i).front().data + element * bytes(i);
  }
  void advance(std::size_t /*elements*/) const {}
};

// Sources with any number of spans. Each has a cursor.
class ScatteredSources : public Sources {
 public:
  explicit ScatteredSources(const Reduction& reduction) : Sources(reduction) {
    for (std::size_t i = 0; i < count(); ++i) {
      cursors_[i] = {0, 0};
      skip_finished_spans(i);
    }
  }
  // Returns how many elements, at most `wanted`, lie within one span of every source.
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

  // Only the first count() are used.
  Cursor cursors_[kMaxInputs];
};

// What is the same for all passes of a reduction.
struct Folding {
  explicit Folding(const Reduction& reduction)
      : sources(count_of_sources(reduction)),
        wider(is_wider(reduction)),
        first_element(wider && reduction.before != nullptr ? 1 : 0),
        end_of_elements(wider ? first_element + reduction.inputs.size() : sources),
        widen(wider && reduction.partial_result),
        simple(is_simple(reduction)),
        // Elements and wider values are never in one pass.
        grouped(!simple && (sources > kMaxGroupInputs || first_element > 0 ||
                            (end_of_elements > 0 && end_of_elements < sources))) {}

  std::size_t sources;
  bool wider;  // some of the sources, or the outputs, are wider than elements
  // The range of sources of the element type. When wider is set, the others are wider.
  std::size_t first_element;
  std::size_t end_of_elements;
  bool widen;    // the outputs are wider
  bool simple;   // one simple pass
  bool grouped;  // several passes, with accumulators between them
};

// Folds the sources from `first` up to `end`, over pass.count elements from `done` on. The groups
// are of as equal size as possible, with at most `most` sources each. `pointers` has room for one
// group.
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
  const bool ends_with_elements = folding.end_of_elements == folding.sources;
  fold(passes.partials, inputs, 0, folding.first_element, kMaxGroupInputs, false, done, pointers,
       pass);
  fold(passes.general, inputs, folding.first_element, folding.end_of_elements, kMaxGroupInputs,
       ends_with_elements, done, pointers, pass);
  fold(passes.partials, inputs, folding.end_of_elements, folding.sources, kMaxGroupInputs, true,
       done, pointers, pass);
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
      // Where a cut left the outputs misaligned, ordinary stores go up to the next vector.
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

// The common case, without the preparations of the others: in a small reduction these take most of
// the time.
void reduce_at_once(const Kernels& kernels, const Reduction& reduction) {
  const std::byte* pointers[kMaxSimpleInputs];
  std::size_t sources = 0;
  if (reduction.before != nullptr) pointers[sources++] = reduction.before;
  for (const View input : reduction.inputs) pointers[sources++] = input.front().data;
  for (const View partial : reduction.partials) pointers[sources++] = partial.front().data;
  Pass pass;
  pass.inputs = pointers;
  pass.input_count = sources;
  pass.outputs = reduction.outputs.data();
  pass.output_count = 1;
  pass.count = reduction.count;
  pass.divisor = divisor_of(reduction);
  const Chosen chosen = choose(kernels, reduction.type, reduction.operation);
  chosen.passes.simple[pass.input_count - 1](pass);
}

// Partial results of partials alone are an ordinary reduction in the type of the partials.
Reduction of_partials(Reduction reduction) {
  reduction.type = partial_type(reduction.type, reduction.operation);
  if (reduction.operation == Operation::kAverage) reduction.operation = Operation::kSum;
  reduction.inputs = std::exchange(reduction.partials, {});
  return reduction;
}

// True when each of the views has this many bytes.
bool all_have(std::span<const View> views, std::size_t bytes) {
  return std::all_of(views.begin(), views.end(), [bytes](View view) {
    std::size_t total = 0;
    for (const Span& span : view) total += span.bytes;
    return total == bytes;
  });
}

[[maybe_unused]] bool valid(const Reduction& reduction) {
  const std::size_t sources = count_of_sources(reduction);
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
