// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the pointwise schedule for given shapes.
//
// The aim is copy bandwidth: accesses of 16 bytes, enough independent ones per thread that some 32
// to 64 KB per SM are in flight, and whole waves of blocks. Tensors that lack outer dimensions (a
// bias) are loaded once per thread and used for several rows.
#include <scheduler/pointwise.h>

#include <base/integer_math.h>
#include <ir/logical_map.h>
#include <scheduler/access_width.h>
#include <scheduler/cost.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_set>

namespace nvfuser::pointwise {

namespace {

// Accesses of a thread at once [hand, see machine.h].
constexpr int64_t kMaxUnroll = 4;
// Bytes that a thread may hold of all tensors, in 64 registers, before narrower vectors, and so
// more threads, are better.
constexpr int64_t kMaxBytesHeld = 256;
// Elements: a two-dimensional schedule with shorter rows would leave threads idle or lose vectors.
constexpr int64_t kMinInnerExtent = 64;
// Accesses of an element that take as long as dividing its position.
constexpr int64_t kDivision = 8;

// What the heuristics know of one input or output at the shapes at hand.
struct Tensor {
  TensorAccess access;
  int64_t bits = 0;           // of an element
  std::vector<bool> has_axis; // by position in the loop order; axes of extent 1 count as not there
  std::vector<bool> cut_axis; // sliced or padded on the way to it
  int64_t elements = 1;       // that are accessed, without broadcast repetition
  bool is_output = false;
};

class Chooser {
 public:
  Chooser(const Fusion* fusion, const PointwiseAnalysis& analysis, SchedulerRuntimeInfo& info)
      : fusion_(fusion), analysis_(analysis), info_(info) {
    const auto dims = logicalIds(analysis.reference);
    for (int64_t axis : analysis.loop_order) {
      const IterDomain* id = dims[static_cast<size_t>(axis)];
      extents_.push_back(id->isBroadcast() ? 1 : info.sizeOf(id));
    }
    for (const TensorAccess& access : tensorAccesses(fusion, analysis)) {
      addTensor(access);
    }
    total_ = std::accumulate(extents_.begin(), extents_.end(), int64_t{1}, std::multiplies<>());
  }

  std::unique_ptr<PointwiseParams> run() {
    auto params = withoutBulkLoads();
    if (params->vectorization_factor > 1) {
      params->aligned_inputs = alignedInputs(*params);
    }
    chooseTile(*params);
    if (info_.wishes().bulk_pointwise && params->tile_axes.empty()) {
      chooseBulkLoads(*params);
    }
    return params;
  }

 private:
  std::unique_ptr<PointwiseParams> withoutBulkLoads() {
    auto params = std::make_unique<PointwiseParams>();
    if (total_ == 0 || extents_.empty()) {
      params->lparams.bindUnsafe(info_.machine().fewThreads(), ParallelType::TIDx);
      return params;
    }
    params->break_point = chooseBreakPoint();
    chooseVectorization(*params);
    if (params->break_point > 0) {
      alignRows(*params, params->break_point);
    }
    // All of it as one row, unless its size is no multiple of a vector.
    const auto rank = static_cast<int64_t>(extents_.size());
    for (int64_t outer = 1; outer < rank && params->break_point == 0; ++outer) {
      alignRows(*params, outer);
    }
    if (params->break_point == 0) {
      chooseBlocks1D(*params);
      return params;
    }
    if (params->align_rows) {
      chooseBlocksOfAlignedRows(*params);
      return params;
    }
    chooseBlocks2D(*params);
    if (params->vectorization_factor > 1 && bytesHeld(*params) > kMaxBytesHeld) {
      auto narrower = std::make_unique<PointwiseParams>();
      narrower->break_point = params->break_point;
      Vectors vectors = bestVectors(*params, params->vectorization_factor / 2);
      narrower->vectorization_factor = vectors.width;
      narrower->not_vectorized = std::move(vectors.not_vectorized);
      params = std::move(narrower);
      chooseBlocks2D(*params);
    }
    return params;
  }

  // --- threads along several dimensions ---

  // A tensor that is read in pieces of less than a sector may have their neighbours in memory along
  // other loops, so far outside that other warps read them. As many of those iterations as make a
  // line come next to each other, and inside of them as many elements as are a sector of the
  // narrowest tensor. They divide the extents, which must be known.
  void chooseTile(PointwiseParams& params) const {
    if (info_.machine().threads_in_loops || params.align_rows) {
      return;
    }
    const int64_t sector = 8 * info_.machine().sector_bytes;
    const int64_t line = 8 * info_.machine().line_bytes;
    int64_t narrowest = sector;
    for (const Tensor& t : tensors_) {
      narrowest = t.elements == total_ ? std::min(narrowest, t.bits) : narrowest;
    }
    int64_t widest = 0; // bits
    for (const Tensor& t : tensors_) {
      if (t.is_output || t.elements < total_ || t.bits <= widest) {
        continue;
      }
      const TileRows rows = rowsOfLine(t, params, sector / t.bits, line / t.bits);
      if (rows.axes.empty()) {
        continue;
      }
      const int64_t vector = params.vectorization_factor;
      const int64_t columns = vector * knownColumns(std::ranges::max(rows.axes) + 1,
                                                    ceilDiv(sector / narrowest, vector), vector);
      if (2 * columns * narrowest >= sector) {
        params.tile_axes = rows.axes;
        params.tile_rows = rows.factors;
        params.tile_columns = columns;
        widest = t.bits;
      }
    }
  }

  struct TileRows {
    std::vector<int64_t> axes; // the outermost in memory first
    std::vector<int64_t> factors;
  };

  // None, if it is read by sectors anyway. A block's warps read the sectors of a line.
  TileRows rowsOfLine(const Tensor& t, const PointwiseParams& params, int64_t sector,
                      int64_t line) const {
    const auto rank = static_cast<int64_t>(extents_.size());
    std::vector<LoopPart> parts = loopParts(t, params.break_point);
    std::vector<AxisTerms::Id> terms; // of the run, in memory order
    int64_t run = 1;
    const auto extended = [&](const LoopPart& part) {
      std::vector<AxisTerms::Id> with{part.term};
      with.insert(with.end(), terms.begin(), terms.end());
      return knownRun(t, with);
    };
    while (!parts.empty() && 2 * run <= sector) {
      const int64_t longer = extended(parts.back());
      if (longer <= run) {
        break;
      }
      run = longer;
      terms.insert(terms.begin(), parts.back().term);
      parts.pop_back();
    }
    if (2 * run > sector) {
      return {};
    }
    TileRows out;
    bool in_warp = true;
    while (2 * run <= line) {
      const auto next =
          std::ranges::find_if(parts, [&](const LoopPart& part) { return extended(part) > run; });
      if (next == parts.end() || next->axis == rank - 1) { // the columns go on
        break;
      }
      const int64_t extent = extended(*next) / run;
      const int64_t factor = largestDivisor(extent, line / run);
      if (factor == 1 || !next->is_innermost) {
        break;
      }
      const int64_t inside = total_ / rowsAt(next->axis + 1);
      in_warp = in_warp && inside * factor <= kWarp * params.vectorization_factor;
      out.axes.insert(out.axes.begin(), next->axis);
      out.factors.insert(out.factors.begin(), factor);
      terms.insert(terms.begin(), next->term);
      parts.erase(next);
      run *= factor;
      if (factor < extent) {
        break;
      }
    }
    return in_warp || out.axes.empty() ? TileRows{} : out;
  }

  // What a loop runs over of the dimensions of a tensor, which may be several.
  struct LoopPart {
    int64_t axis; // in the order of the loops
    AxisTerms::Id term;
    bool is_innermost; // of the loop's
  };

  std::vector<LoopPart> loopParts(const Tensor& t, int64_t first) const {
    std::vector<LoopPart> parts;
    for (int64_t a = first; a < static_cast<int64_t>(extents_.size()); ++a) {
      if (!t.has_axis[static_cast<size_t>(a)]) {
        continue;
      }
      const int64_t axis = analysis_.loop_order[static_cast<size_t>(a)];
      const size_t most = extents_.size() + logicalIds(t.access.tv).size();
      addParts(a, t.access.version->view[static_cast<size_t>(axis)], true, most, parts);
    }
    return parts;
  }

  void addParts(int64_t axis, AxisTerms::Id term, bool is_innermost, size_t most,
                std::vector<LoopPart>& parts) const {
    const AxisTerms::Node& node = analysis_.terms[term];
    if (node.kind == AxisTerms::Kind::Merge && parts.size() < most) {
      addParts(axis, node.a, false, most, parts);
      addParts(axis, node.b, is_innermost, most, parts);
    } else {
      parts.push_back({axis, term, is_innermost});
    }
  }

  // Elements that lie together in memory; 0 if that depends on sizes.
  int64_t knownRun(const Tensor& t, std::span<const AxisTerms::Id> terms) const {
    const ContiguousRun run = runAlongTerms(analysis_, *t.access.version, terms);
    const bool is_known =
        !run.empty() && !run.resized &&
        std::ranges::all_of(run.multiples.front(), [](const Val* v) { return v->isConstInt(); });
    return is_known ? info_.productOf(run.multiples.front()) : 0;
  }

  static int64_t largestDivisor(int64_t of, int64_t most) {
    int64_t n = std::min(of, most);
    while (of % n != 0) {
      --n;
    }
    return n;
  }

  // The largest number up to `most` so that `of` times it divides the product of the loops from
  // `first` on, of which the innermost that it takes have known extents; 0: none.
  int64_t knownColumns(int64_t first, int64_t most, int64_t of) const {
    const auto dims = logicalIds(analysis_.reference);
    int64_t known = 1;
    int64_t best = 0;
    for (auto a = static_cast<int64_t>(extents_.size()); a > first && best < most; --a) {
      const int64_t axis = analysis_.loop_order[static_cast<size_t>(a - 1)];
      const auto extent = constInt(dims[static_cast<size_t>(axis)]->extent());
      if (!extent.has_value() || *extent < 1) {
        break;
      }
      known *= *extent;
      best = known % of == 0 ? largestDivisor(known / of, most) : 0;
    }
    return best;
  }

  // Of those that are read element by element, at least in one of several ways.
  std::vector<int64_t> alignedInputs(const PointwiseParams& params) const {
    const auto axes = innerAxes(analysis_, params.break_point);
    const auto& excluded = params.not_vectorized;
    const std::vector<Val*>& inputs = fusion_->inputs();
    std::vector<int64_t> out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto position = static_cast<int64_t>(i);
      const auto isInVectors = [&](const Tensor& t) {
        return t.access.position == position &&
               isVectorizable(analysis_, *t.access.version, axes) &&
               std::find(excluded.begin(), excluded.end(), t.access.number) == excluded.end();
      };
      const auto ways = std::count_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) {
        return t.access.position == position;
      });
      if (inputs[i]->isTensor() &&
          (ways == 0 || std::count_if(tensors_.begin(), tensors_.end(), isInVectors) < ways) &&
          isAligned(inputs[i]->as<TensorView>())) {
        out.push_back(position);
      }
    }
    return out;
  }

  // One piece of memory that nothing writes, from a vector's beginning on.
  bool isAligned(const TensorView* tv) const {
    const int64_t bits = dataTypeSizeBits(tv->dtype());
    const std::vector<MemoryDim> memory = memoryDims(tv);
    return bits >= 8 && bits <= 64 && info_.alignmentOf(tv) % kVectorBytes == 0 &&
           std::all_of(memory.begin(), memory.end(), [](const auto& d) { return d.contiguous; }) &&
           std::none_of(fusion_->outputAliases().begin(), fusion_->outputAliases().end(),
                        [&](const OutputAlias& a) { return a.input == tv; });
  }

  // --- bulk copies (NVFUSER_ENABLE=tma_pointwise) ---

  // Inputs that have everything the loops run over, or all of a row, in one piece; as many as there
  // is room for.
  void chooseBulkLoads(PointwiseParams& params) {
    if (params.vectorization_factor == 1 || !info_.machine().bulk_copies) {
      return;
    }
    const int64_t elements = params.vectorization_factor * params.unroll_factor_inner *
                             params.unroll_factor_outer * params.blockDimX() * params.blockDimY();
    int64_t room = info_.machine().shared_per_block;
    for (const Tensor& t : tensors_) {
      const int64_t bytes = elements * t.bits / 8 + 8 * kVectorBytes; // with its mbarrier
      const auto& excluded = params.not_vectorized;
      if (!t.is_output && bytes <= room && canBulkLoad(t, params) &&
          std::find(excluded.begin(), excluded.end(), t.access.number) == excluded.end()) {
        params.bulk_loads.push_back(t.access.position);
        room -= bytes;
      }
    }
  }

  // What a block reads of the input (of each of its rows) is one piece of whole chunks of 16 bytes.
  bool canBulkLoad(const Tensor& t, const PointwiseParams& params) const {
    const TensorView* tv = t.access.tv;
    const auto first = static_cast<size_t>(params.break_point);
    const auto dims = logicalIds(tv);
    const bool is_plain =
        analysis_.versionsOf(tv).size() == 1 && !isLookedUp(tv) &&
        std::none_of(dims.begin(), dims.end(), [](auto* id) { return id->isBroadcast(); }) &&
        std::all_of(t.access.version->view.begin(), t.access.version->view.end(),
                    [&](AxisTerms::Id id) {
                      const AxisTerms::Kind kind = analysis_.terms[id].kind;
                      return kind == AxisTerms::Kind::Dimension || kind == AxisTerms::Kind::Missing;
                    });
    const bool has_rows = hasAll(t, first, extents_.size()) && (first == 0 || hasAny(t, 0, first));
    if (!is_plain || !has_rows || t.bits < 8 || t.bits > 64 ||
        info_.alignmentOf(tv) % kVectorBytes != 0) {
      return false;
    }
    const int64_t unit = 8 * kVectorBytes / t.bits;
    const auto axes = innerAxes(analysis_, params.break_point);
    const int64_t inner = total_ / rowsAt(params.break_point);
    const ContiguousRun run = runAlong(analysis_, *t.access.version, axes);
    return run.multiples.size() == 1 && info_.productOf(run.multiples.front()) == inner &&
           inner % unit == 0 && canUseVectors(analysis_, t.access, axes, unit, info_);
  }

  void addTensor(const TensorAccess& access) {
    Tensor t;
    t.access = access;
    t.bits = dataTypeSizeBits(access.tv->dtype());
    t.is_output = access.tv->isFusionOutput() && !access.tv->isFusionInput();
    for (size_t i = 0; i < extents_.size(); ++i) {
      const bool there = analysis_.hasAxis(*access.version, analysis_.loop_order[i]);
      t.has_axis.push_back(there && extents_[i] > 1);
      t.elements *= t.has_axis.back() ? extents_[i] : 1;
      const AxisTerms::Id term = access.version->view[static_cast<size_t>(analysis_.loop_order[i])];
      t.cut_axis.push_back(analysis_.terms.contains(term, AxisTerms::Kind::Resize));
    }
    tensors_.push_back(std::move(t));
  }

  // Whether each element of a row of the dimensions from `first` on divides its position by the
  // size of one of them: to find out on which side of a cut it is.
  bool dividesPositions(const Tensor& t, size_t first) const {
    const size_t n = extents_.size();
    const bool is_merged = std::count_if(extents_.begin() + static_cast<std::ptrdiff_t>(first),
                                         extents_.end(), [](int64_t e) { return e > 1; }) > 1;
    for (size_t i = first; i < n && is_merged; ++i) {
      if (t.cut_axis[i] && extents_[i] > 1) {
        return true;
      }
    }
    return false;
  }

  bool hasAny(const Tensor& t, size_t from, size_t to) const {
    return std::any_of(t.has_axis.begin() + static_cast<std::ptrdiff_t>(from),
                       t.has_axis.begin() + static_cast<std::ptrdiff_t>(to),
                       [](bool b) { return b; });
  }

  bool hasAll(const Tensor& t, size_t from, size_t to) const {
    for (size_t i = from; i < to; ++i) {
      if (extents_[i] > 1 && !t.has_axis[i]) {
        return false;
      }
    }
    return true;
  }

  // Where the cut between outer and inner dimensions saves the most accesses: tensors without any
  // of the outer (or any of the inner) dimensions are accessed once for several elements, and those
  // that lack outer ones only by vectors. Where a block's threads are loops, divisions count too:
  // they are not vectorized.
  int64_t chooseBreakPoint() const {
    const size_t n = extents_.size();
    int64_t best = 0;
    int64_t best_saving = 0;
    int64_t inner = total_;
    for (size_t b = 1; b < n; ++b) {
      inner /= extents_[b - 1];
      const bool has_outer = inner < total_;
      if (!has_outer || inner < kMinInnerExtent) {
        continue;
      }
      int64_t saving = 0;
      bool outputs_fit = true;
      for (const Tensor& t : tensors_) {
        const bool outer_part = hasAny(t, 0, b);
        const bool inner_part = hasAny(t, b, n);
        // One that lacks some of the inner dimensions cannot be accessed by vectors.
        if (inner_part && hasAll(t, b, n) && !hasAll(t, 0, n)) {
          saving += t.bits;
        }
        if (info_.machine().threads_in_loops && dividesPositions(t, 0) && !dividesPositions(t, b)) {
          saving += kDivision * t.bits;
        }
        if (outer_part != inner_part) {
          saving += t.bits;
          // An output without one of the parts would be in other loops than what it is computed
          // from.
          outputs_fit = outputs_fit && !t.is_output;
        }
      }
      if (outputs_fit && saving > best_saving) {
        best_saving = saving;
        best = static_cast<int64_t>(b);
      }
    }
    return best;
  }

  void chooseVectorization(PointwiseParams& params) {
    if (info_.machine().threads_in_loops) {
      return; // of the loop over threads the compiler makes vectors
    }
    const auto axes = innerAxes(analysis_, params.break_point);
    int64_t widest = 8;
    for (const Tensor& t : tensors_) {
      widest = std::max(widest, isVectorizable(analysis_, *t.access.version, axes) ? t.bits : 0);
    }
    const Vectors best = bestVectors(params, 8 * kVectorBytes / widest);
    params.vectorization_factor = best.width;
    params.not_vectorized = best.not_vectorized;
  }

  // Rows whose length leaves narrow vectors only: whole ones that begin before the row. A row that
  // all of them share, such as a bias, is read by vectors that begin anywhere.
  void alignRows(PointwiseParams& params, int64_t break_point) const {
    const auto first = static_cast<size_t>(break_point);
    const int64_t inner = total_ / rowsAt(break_point);
    int64_t width = kVectorBytes;
    int64_t widest = 0; // bits
    int64_t shared = 0; // rows
    std::vector<int64_t> not_vectorized;
    for (const Tensor& t : tensors_) {
      if (isLookedUp(t.access.tv) || !hasAny(t, first, extents_.size())) {
        not_vectorized.push_back(t.access.number);
        continue;
      }
      if (updatedByStore(t.access.tv) != nullptr ||
          !(t.elements == total_ ? liesAsRowsDo(t) : isOneRow(t, break_point))) {
        return;
      }
      width = std::min(width, alignedWidth(t.access.tv, info_));
      shared += t.elements == total_ ? 0 : 1;
      widest = std::max(widest, t.elements == total_ ? t.bits : 0);
    }
    // A vector of a shared row takes two loads, and otherwise one for several rows.
    const int64_t most_bytes = shared > 0 ? kRegisterBytes / 2 : kRegisterBytes;
    const int64_t fewest = kFewestAligned * std::max<int64_t>(shared, 1);
    if (info_.machine().threads_in_loops || info_.wantsAnyExtent() || widest == 0 ||
        inner == total_ || params.vectorization_factor * widest > 8 * most_bytes ||
        width <= params.vectorization_factor || inner < fewest * width) {
      return;
    }
    params.break_point = break_point;
    params.align_rows = true;
    params.vectorization_factor = width;
    params.not_vectorized = std::move(not_vectorized);
  }

  // One dimension in memory, which rows run along.
  bool isOneRow(const Tensor& t, int64_t break_point) const {
    const auto first = static_cast<size_t>(break_point);
    return !t.is_output && !hasAny(t, 0, first) && hasAll(t, first, extents_.size()) &&
           memoryDims(t.access.tv).size() == 1 &&
           isVectorizable(analysis_, *t.access.version, innerAxes(analysis_, break_point));
  }

  // All of its elements, in the order of the loops.
  bool liesAsRowsDo(const Tensor& t) const {
    const ContiguousRun run = runAlong(analysis_, *t.access.version, innerAxes(analysis_, 0));
    return run.multiples.size() == 1 && info_.productOf(run.multiples.front()) == total_;
  }

  // All of it is accessed element by element, and neighbouring threads with vectors of others would
  // be so many elements apart.
  bool isStrided(const Tensor& t) const {
    const std::vector<MemoryDim> memory = memoryDims(t.access.tv);
    return t.elements == total_ && !memory.empty() && !memory.back().contiguous;
  }

  struct Vectors {
    int64_t width = 1;
    std::vector<int64_t> not_vectorized; // numbers of accesses
  };

  // Of those by which more than half of the bytes can be accessed in one way at least, the vectors
  // that need the fewest accesses.
  Vectors bestVectors(const PointwiseParams& params, int64_t widest) const {
    const auto axes = innerAxes(analysis_, params.break_point);
    Vectors best;
    double fewest = std::numeric_limits<double>::max();
    for (int64_t width = widest; width > 1; width /= 2) {
      Vectors vectors{width, {}};
      std::map<int64_t, std::pair<int64_t, bool>> tensors; // bits, and whether some are in vectors
      double accesses = 0;
      for (const Tensor& t : tensors_) {
        if (!isVectorizable(analysis_, *t.access.version, axes)) {
          if (isStrided(t)) {
            tensors[t.access.position].first = t.bits * t.elements;
          }
          continue;
        }
        const bool fits = canUseVectors(analysis_, t.access, axes, width, info_);
        auto& [bits, some] = tensors[t.access.position];
        bits = t.bits * t.elements;
        some = some || fits;
        accesses += static_cast<double>(t.elements) / static_cast<double>(fits ? width : 1);
        if (!fits) {
          vectors.not_vectorized.push_back(t.access.number);
        }
      }
      int64_t in_vectors = 0;
      int64_t all = 0;
      for (const auto& [position, tensor] : tensors) {
        in_vectors += tensor.second ? tensor.first : 0;
        all += tensor.first;
      }
      if (2 * in_vectors > all && accesses < fewest) {
        fewest = accesses;
        best = std::move(vectors);
      }
    }
    return best;
  }

  // Independent accesses per thread and tensor that bring the bytes in flight up, with all threads
  // of an SM resident; more make streaming kernels slower (measured,
  // docs/measurements/schedule_constants.md).
  int64_t wantedUnroll(int64_t width) const {
    const int64_t wanted = info_.machine().wanted_bytes / info_.machine().max_threads_per_sm;
    int64_t bytes = bytesOfWhole(width, false);
    if (bytes == 0 && writesMost()) { // such blocks are started too slowly if each writes little
      bytes = bytesOfWhole(width, true);
    }
    if (bytes == 0) {
      return 1;
    }
    return std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(
                                   static_cast<uint64_t>(std::max<int64_t>(1, wanted / bytes)))),
                               1, kMaxUnroll);
  }

  bool writesMost() const {
    int64_t read = 0;
    int64_t written = 0;
    for (const Tensor& t : tensors_) {
      (t.is_output ? written : read) += t.elements * t.bits;
    }
    return 2 * read < written;
  }

  // Bytes of a vector of each input, or each output, that has all elements.
  int64_t bytesOfWhole(int64_t width, bool of_outputs) const {
    int64_t bytes = 0;
    std::unordered_set<const TensorView*> counted; // further versions of an input come from a cache
    for (const Tensor& t : tensors_) {
      if (t.is_output == of_outputs && t.elements == total_ && counted.insert(t.access.tv).second) {
        bytes += std::max<int64_t>(1, width * t.bits / 8);
      }
    }
    return bytes;
  }

  // Bytes of all that a thread has loaded and computed of tensors when the last load is under way.
  int64_t bytesHeld(const PointwiseParams& params) const {
    int64_t bytes = 0;
    for (const Tensor& t : tensors_) {
      const auto inner = static_cast<size_t>(params.break_point);
      const int64_t rows = hasAny(t, 0, inner) ? params.unroll_factor_outer : 1;
      const int64_t of_row = hasAny(t, inner, extents_.size()) ? params.vectorization_factor : 1;
      bytes += rows * of_row * t.bits / 8;
    }
    return bytes;
  }

  // Blocks that the device holds at once, if half of the threads' slots are taken.
  int64_t blocksOfAWave(int64_t threads) const {
    return info_.machine().blocksAtOnce(2 * threads);
  }

  // What a block has of a row, where its threads are a loop's iterations.
  int64_t loopedThreads(int64_t row) const {
    return std::min(powerOfTwoFrom(row), info_.machine().max_threads_per_block);
  }

  // Of blocks along rows of so many vectors: few, or twice as many if an SM could not start as many
  // blocks of few threads in the time that memory and instructions take.
  int64_t threadsOfBlock(int64_t rows, int64_t vectors, int64_t unroll) const {
    const MachineModel& machine = info_.machine();
    const int64_t few = machine.fewThreads();
    if (vectors < machine.usualThreads() || info_.wantsAnyExtent()) {
      return few;
    }
    const double starting = microsecondsOfStarts(ceilDiv(rows * vectors, few * unroll), machine);
    return starting > leastMicroseconds() ? machine.usualThreads() : few;
  }

  double leastMicroseconds() const {
    const MachineModel& machine = info_.machine();
    double bytes = 0;
    std::unordered_set<const TensorView*> counted;
    for (const Tensor& t : tensors_) {
      bytes +=
          counted.insert(t.access.tv).second ? static_cast<double>(t.elements * t.bits) / 8 : 0;
    }
    const auto operations = static_cast<double>(fusion_->exprs().size());
    const double instructions = machine.step_instructions * operations *
                                static_cast<double>(total_) / static_cast<double>(kWarp);
    return std::max(bytes / machine.memory_bandwidth,
                    instructions / (static_cast<double>(machine.sms * machine.schedulers_per_sm) *
                                    machine.cycles_per_us));
  }

  void chooseBlocks1D(PointwiseParams& params) const {
    if (info_.machine().threads_in_loops) {
      params.lparams.bindUnsafe(loopedThreads(total_), ParallelType::TIDx);
      return;
    }
    const int64_t vectors = ceilDiv(total_, params.vectorization_factor);
    int64_t unroll = wantedUnroll(params.vectorization_factor);
    const int64_t threads = threadsOfBlock(1, vectors, unroll);
    while (unroll > 1 && !info_.wantsAnyExtent() &&
           ceilDiv(vectors, threads * unroll) < blocksOfAWave(threads)) {
      unroll /= 2;
    }
    params.unroll_factor_inner = unroll;
    params.lparams.bindUnsafe(threads, ParallelType::TIDx);
  }

  // Of dimensions before the break point; the schedule is for at least one element.
  int64_t rowsAt(int64_t break_point) const {
    return std::accumulate(extents_.begin(), extents_.begin() + break_point, int64_t{1},
                           std::multiplies<>());
  }

  // As many threads along the row, from few to twice as many, as leave the fewest idle at its end:
  // of those that leave equally many the few, then the most.
  static int64_t leastIdle(int64_t vectors, int64_t few) {
    const auto idle = [&](int64_t threads) { return roundUp(vectors, threads) - vectors; };
    int64_t best = few;
    for (const int64_t threads : {2 * few, few * 3 / 2, few * 5 / 4}) {
      best = idle(threads) < idle(best) ? threads : best;
    }
    return best;
  }

  void chooseBlocks2D(PointwiseParams& params) const {
    const int64_t outer = rowsAt(params.break_point);
    const int64_t vectors = ceilDiv(total_ / outer, params.vectorization_factor);
    const int64_t wanted = wantedUnroll(params.vectorization_factor);
    // What lacks the outer dimensions is loaded, converted and indexed once for all rows. Beside
    // that, of one row alone a thread would do too little.
    const bool shares = sharesAlongRows(params);
    const int64_t most = std::min(shares || wanted == 1 ? 2 * wanted : wanted, kMaxUnroll);
    const int64_t few = threadsOfBlock(outer, vectors, most);
    int64_t threads = powerOfTwoFrom(vectors);
    if (info_.machine().threads_in_loops) {
      threads = loopedThreads(vectors);
    } else if (info_.wantsAnyExtent()) {
      threads = vectors >= few ? few : kWarp; // for all extents
    } else if (vectors >= few) {
      threads = leastIdle(vectors, few);
    } else if (outer > 1) {
      threads = vectors; // no thread is idle: several rows share a warp
    }
    int64_t rows = 1;
    if (threads < few && outer > 1) {
      // A power of two, as numbers of rows mostly are multiples of one.
      rows = info_.wantsAnyExtent()
                 ? few / threads
                 : std::min(powerOfTwoFrom(ceilDiv(few, threads)), powerOfTwoFrom(outer));
    }
    const int64_t inner_blocks = ceilDiv(vectors, threads);
    int64_t unroll = info_.machine().threads_in_loops ? 1 : most;
    while (unroll > 1 && !info_.wantsAnyExtent() &&
           inner_blocks * ceilDiv(outer, rows * unroll) < blocksOfAWave(threads * rows)) {
      unroll /= 2;
    }
    params.unroll_factor_outer = unroll;
    params.lparams.bindUnsafe(threads, ParallelType::TIDx);
    if (rows > 1) {
      params.split_block = true;
      params.lparams.bindUnsafe(rows, ParallelType::TIDy);
    }
    bindRows(params, ceilDiv(outer, rows * unroll), inner_blocks);
    // wantedUnroll counts on all threads that an SM has room for.
    if (!info_.machine().threads_in_loops && !shares) {
      params.cparams.wanted_registers =
          registersOfThread(info_.machine().max_threads_per_sm, info_.machine());
    }
  }

  // Neighbouring rows read the same of a tensor along them.
  bool sharesAlongRows(const PointwiseParams& params) const {
    const auto first = static_cast<size_t>(params.break_point);
    size_t outer = first;
    while (outer > 0 && extents_[outer - 1] == 1) {
      --outer;
    }
    return outer > 0 && std::ranges::any_of(tensors_, [&](const Tensor& t) {
             return !t.has_axis[outer - 1] && hasAny(t, first, extents_.size());
           });
  }

  // Several vectors of a thread, but where that leaves an eighth of the row more threads idle.
  void chooseBlocksOfAlignedRows(PointwiseParams& params) const {
    const int64_t rows = rowsAt(params.break_point);
    const int64_t width = params.vectorization_factor;
    const int64_t vectors = ceilDiv(total_ / rows + width - 1, width);
    const int64_t few = info_.machine().fewThreads();
    int64_t least = std::numeric_limits<int64_t>::max(); // vectors that there are threads for
    const auto most = std::min(2 * wantedUnroll(width), kMaxUnroll);
    for (int64_t unroll = most; unroll >= 1; unroll /= 2) {
      int64_t best = few;
      const auto slots = [&](int64_t threads) { return roundUp(vectors, threads * unroll); };
      for (int64_t threads = few / 2; threads <= 2 * few; threads += kWarp) {
        best = slots(threads) <= slots(best) ? threads : best;
      }
      const bool fills = slots(best) / (best * unroll) * rows >= blocksOfAWave(best);
      if (slots(best) < least - vectors / 8 && (fills || unroll == 1)) {
        least = slots(best);
        params.unroll_factor_inner = unroll;
        params.lparams.bindUnsafe(best, ParallelType::TIDx);
      }
    }
    const int64_t of_block = params.unroll_factor_inner * params.blockDimX();
    bindRows(params, rows, ceilDiv(vectors, of_block));
  }

  // More blocks along the rows than the grid can have in y.
  void bindRows(PointwiseParams& params, int64_t row_blocks, int64_t inner_blocks) const {
    const int64_t most_y = info_.machine().max_blocks_y;
    if (row_blocks > most_y) {
      if (inner_blocks <= most_y) {
        params.flip_grid_binding = true;
      } else {
        params.split_grid_y_dim = true;
      }
    }
  }

  const Fusion* fusion_;
  const PointwiseAnalysis& analysis_;
  SchedulerRuntimeInfo& info_;
  std::vector<int64_t> extents_; // in loop order; 1 for broadcasts
  std::vector<Tensor> tensors_;
  int64_t total_ = 1;
};

} // namespace

std::unique_ptr<PointwiseParams> chooseParams(const Fusion* fusion,
                                              const PointwiseAnalysis& analysis,
                                              SchedulerRuntimeInfo& info) {
  return Chooser(fusion, analysis, info).run();
}

} // namespace nvfuser::pointwise
