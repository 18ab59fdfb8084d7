// SPDX-License-Identifier: BSD-3-Clause
// A lookup in what is computed needs a kernel of its own, as it reads its table at any position.
// Where the positions are known to be one or two runs of neighbours, such as (i + 3) % n of a roll,
// it is a slice, or the concatenation of two, which is computed with what comes before and after.
// Each slice computes what it reads, so that these go before the elementwise operations that make
// the table, if only the lookup reads those: f(x, row) at some columns is f of x at these columns.
// Two that make a rotation of something in memory are one read of it: a roll (RollOp), which a
// concatenation of slices by the user becomes, too. Dimensions that were permuted and merged before
// it are read through (windows that are put together again). Along the innermost dimension they
// stay slices, which are read by vectors.
#include <preseg_passes/passes.h>

#include <ir/exprs.h>
#include <ir/visitor.h>
#include <ops/elementwise.h>
#include <ops/indexing_internal.h>
#include <ops/shape.h>
#include <ops/shape_internal.h>
#include <ops/utils.h>
#include <preseg_passes/known_positions.h>
#include <preseg_passes/rewriter.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nvfuser {

namespace {

// A kernel reads inputs at any position, and what a library or a scatter has made.
bool isInMemory(const TensorView* tv) {
  const Expr* definition = tv->definition();
  return definition == nullptr || definition->kind() == ExprKind::LibraryOp ||
         definition->kind() == ExprKind::ScatterOp;
}

// A tensor in memory whose dimensions were permuted and merged.
struct View {
  TensorView* memory = nullptr;   // null: it is something else
  std::vector<int64_t> dims = {}; // as of RollOp
};

using MadeOf = std::vector<std::vector<size_t>>;

MadeOf themselves(const Val* tv) {
  MadeOf out;
  for (size_t i = 0; i < logicalIds(tv).size(); ++i) {
    out.push_back({i});
  }
  return out;
}

// The dimensions of the operand that each of the result is made of. Empty if it is no view of it,
// or one that splits dimensions.
MadeOf madeBy(const Expr* e) {
  if (e->kind() == ExprKind::ReshapeOp) {
    return piecesOf(logicalIds(e->output(0)), logicalIds(e->input(0)));
  }
  MadeOf out;
  for (const int64_t d : permutationOf(e)) {
    out.push_back({static_cast<size_t>(d)});
  }
  return isPlainCopy(e) ? themselves(e->output(0)) : out;
}

View viewOf(TensorView* tv) {
  MadeOf made = themselves(tv); // of which dimensions of the memory each of the view is made
  while (!isInMemory(tv)) {
    const MadeOf step = madeBy(tv->definition());
    if (step.empty()) {
      return {};
    }
    for (std::vector<size_t>& dims : made) {
      std::vector<size_t> before;
      for (const size_t d : dims) {
        before.insert(before.end(), step[d].begin(), step[d].end());
      }
      dims = std::move(before);
    }
    tv = tv->definition()->input(0)->as<TensorView>();
  }
  View view{tv, std::vector<int64_t>(logicalIds(tv).size(), 0)};
  for (size_t d = 0; d < made.size(); ++d) {
    if (!std::is_sorted(made[d].begin(), made[d].end())) {
      return {};
    }
    for (const size_t k : made[d]) {
      view.dims[k] = static_cast<int64_t>(d);
    }
  }
  return view;
}

// Has to be in memory before something else along the dimensions of the rows can read it.
bool isReduced(const TensorView* tv) {
  const Expr* definition = tv->definition();
  return definition->kind() == ExprKind::ReductionOp || definition->kind() == ExprKind::WelfordOp;
}

bool isElementwise(const Expr* e) {
  return e->kind() == ExprKind::ElementwiseOp || e->kind() == ExprKind::BroadcastOp ||
         isPlainCopy(e);
}

class LookupSinker : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  // What is looked up: these positions of a dimension, of which none is read twice.
  struct Lookup {
    std::vector<Run> positions;
    int64_t offset = 0;                                               // of a roll; 0: it is none
    std::map<std::pair<TensorView*, size_t>, TensorView*> found = {}; // by table and dimension
  };

  void rewrite(Expr* e) override {
    if (e->kind() == ExprKind::IndexSelectOp) {
      const auto* op = static_cast<const IndexSelectOp*>(e);
      const auto dim = static_cast<size_t>(op->dim());
      const std::vector<Run> positions = positionsOf(op);
      Lookup lookup{positions, offsetOf(positions, op->lookup(), dim)};
      if (!positions.empty() && (lookup.offset != 0 || !isInMemory(op->lookup()))) {
        sink(e, lookup, op->lookup(), dim);
      }
    } else if (e->kind() == ExprKind::CatOp) {
      const auto* op = static_cast<const CatOp*>(e);
      const auto dim = static_cast<size_t>(op->dim());
      const auto [positions, table] = positionsOf(op);
      Lookup lookup{positions, positions.empty() ? 0 : offsetOf(positions, table, dim)};
      if (lookup.offset != 0) {
        sink(e, lookup, table, dim);
      }
    }
  }

  void sink(const Expr* e, Lookup& lookup, TensorView* table, size_t dim) {
    auto* out = e->output(0)->as<TensorView>();
    const bool is_cat = e->kind() == ExprKind::CatOp; // of slices
    if (isWorthIt(table, is_cat ? e->inputs().size() : 1)) {
      replace(out, found(lookup, table, dim));
    } else if (!is_cat || asRoll(table).has_value()) {
      replace(out, parts(lookup, table, dim));
    }
  }

  // Of two slices of a table side by side; empty if it is something else.
  static std::pair<std::vector<Run>, TensorView*> positionsOf(const CatOp* op) {
    const auto dim = static_cast<size_t>(op->dim());
    std::vector<Run> positions;
    TensorView* table = nullptr;
    for (const TensorView* in : ops_utils::joinedBy(op)) {
      const auto* cut = tryAs<SliceOp>(in->definition());
      if (cut == nullptr || (table != nullptr && table != cut->input(0))) {
        return {};
      }
      table = cut->input(0)->as<TensorView>();
      const auto first = constInt(cut->starts()[dim]);
      const auto stop = constInt(cut->stops()[dim]);
      if (!first.has_value() || !stop.has_value() || !isAllBut(dim, cut)) {
        return {};
      }
      positions.push_back({*first, *stop - *first, 1});
    }
    return {positions, table};
  }

  static bool isAllBut(size_t dim, const SliceOp* op) {
    const auto in = logicalIds(op->input(0));
    const auto out = logicalIds(op->output(0));
    for (size_t i = 0; i < in.size(); ++i) {
      if (i != dim && !in[i]->extent()->sameAs(out[i]->extent())) {
        return false;
      }
    }
    return true;
  }

  // Where a rotation begins that is not read by vectors along it; 0 if these are none.
  static int64_t offsetOf(const std::vector<Run>& positions, const TensorView* table, size_t dim) {
    const IterDomain* along = logicalIds(table)[dim];
    const auto extent = constInt(along->extent());
    const bool is_rotation = positions.size() == 2 && extent.has_value() && along->isIteration() &&
                             positions[1].first == 0 && positions[1].count > 0 &&
                             positions[0].first == positions[1].count && positions[0].step == 1 &&
                             positions[1].step == 1 &&
                             positions[0].first + positions[0].count == *extent;
    return is_rotation && along != innermost(table) ? positions[0].first : 0;
  }

  static const IterDomain* innermost(const TensorView* tv) {
    const IterDomain* last = nullptr;
    for (const IterDomain* id : TensorDomain::noReductions(tv->getMaybeAllocationDomain())) {
      last = id->isBroadcast() ? last : id;
    }
    return last;
  }

  // What a roll of the table reads, if it is one read, and by how much that is rolled already: a
  // view of memory, what another roll reads, or what has to be in memory first.
  struct Roll {
    View view;
    std::vector<int64_t> offsets;
  };
  static std::optional<Roll> asRoll(TensorView* table) {
    if (const auto* before = tryAs<RollOp>(table->definition())) {
      return Roll{{before->in(), before->viewDims()}, before->offsets()};
    }
    const size_t rank = logicalIds(table).size();
    View view = viewOf(table);
    if (view.memory == nullptr) {
      if (!isReduced(table)) {
        return std::nullopt;
      }
      view = {table, std::vector<int64_t>(rank, 0)};
      std::iota(view.dims.begin(), view.dims.end(), 0);
    }
    return Roll{std::move(view), std::vector<int64_t>(rank, 0)};
  }

  static bool isRollOfMemory(const TensorView* tv) {
    const auto* op = tryAs<RollOp>(tv->definition());
    return op != nullptr && isInMemory(op->in());
  }

  // Empty if they are not known, or not all inside.
  static std::vector<Run> positionsOf(const IndexSelectOp* op) {
    std::vector<Run> positions = knownPositions(op->index());
    const bool fit = areInside(positions, op->lookup(), static_cast<size_t>(op->dim()));
    return fit ? positions : std::vector<Run>{};
  }

  static bool areInside(const std::vector<Run>& positions, const TensorView* table, size_t dim) {
    const IterDomain* along = logicalIds(table)[dim];
    const auto extent = constInt(along->extent());
    return along->isIteration() && extent.has_value() &&
           std::all_of(positions.begin(), positions.end(), [&](const Run& run) {
             return run.first >= 0 && run.first + run.count <= *extent &&
                    (run.step == 1 || run.count == 1);
           });
  }

  // Whether nothing but the lookup's `readers` needs the table, and it is made of inputs alone, or
  // of less than would be written and read if kernels before this one made it.
  bool isWorthIt(TensorView* table, size_t readers) const {
    constexpr size_t kMostOperations = 32;
    std::vector<TensorView*> tensors{table};
    std::unordered_set<const TensorView*> seen{table};
    int64_t bits = 0; // that are read for an element, but for what few elements share
    bool of_inputs = true;
    size_t operations = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      TensorView* tv = tensors[i];
      const Expr* definition = tv->definition();
      if (isInMemory(tv) || selected_.count(tv) != 0 || isKnownPart(tv)) {
        bits += numDims(tv) < numDims(table) ? 0 : dataTypeSizeBits(tv->dtype());
      } else if (isElementwise(definition)) {
        const bool is_made = tv->isFusionOutput() && numDims(tv) == numDims(table);
        if (is_made || (tv == table && tv->uses().size() > readers) ||
            ++operations > kMostOperations) {
          return false;
        }
        for (TensorView* in : tensorInputs(definition)) {
          if (seen.insert(in).second) {
            tensors.push_back(in);
          }
        }
      } else if (numDims(tv) < numDims(table)) {
        of_inputs = false;
      } else {
        return false;
      }
    }
    return operations > 0 && (of_inputs || bits < 2 * dataTypeSizeBits(table->dtype()));
  }

  // Of something in memory.
  static bool isKnownPart(const TensorView* tv) {
    const auto* op = tryAs<IndexSelectOp>(tv->definition());
    return isRollOfMemory(tv) ||
           (op != nullptr && isInMemory(op->lookup()) && !positionsOf(op).empty());
  }

  static std::ptrdiff_t numDims(const TensorView* tv) {
    const auto dims = logicalIds(tv);
    return std::count_if(dims.begin(), dims.end(),
                         [](const IterDomain* id) { return !id->isBroadcast(); });
  }

  TensorView* found(Lookup& lookup, TensorView* table, size_t dim) {
    if (logicalIds(table)[dim]->isBroadcast()) {
      return table;
    }
    const auto [it, is_new] = lookup.found.try_emplace({table, dim});
    if (is_new) {
      TensorView* made = make(lookup, table, dim);
      lookup.found[{table, dim}] = made;
      return made;
    }
    return it->second;
  }

  TensorView* make(Lookup& lookup, TensorView* table, size_t dim) {
    const Expr* e = table->definition();
    if (isInMemory(table) || selected_.count(table) != 0 || !isElementwise(e)) {
      TensorView* out = parts(lookup, table, dim);
      selected_.insert(out);
      return out;
    }
    if (e->kind() == ExprKind::BroadcastOp) {
      const std::vector<bool>& flags = static_cast<const BroadcastOp*>(e)->isBroadcastDim();
      const auto before =
          std::count(flags.begin(), flags.begin() + static_cast<int64_t>(dim), true);
      TensorView* in =
          found(lookup, e->input(0)->as<TensorView>(), dim - static_cast<size_t>(before));
      return broadcast(in, flags);
    }
    if (e->kind() == ExprKind::LoadStoreOp) {
      return found(lookup, e->input(0)->as<TensorView>(), dim);
    }
    std::vector<Val*> operands;
    for (Val* in : e->inputs()) {
      operands.push_back(in->isTensor() ? found(lookup, in->as<TensorView>(), dim) : in);
    }
    auto* out =
        elementwiseAsIs(static_cast<const ElementwiseOp*>(e)->op(), table->dtype(), operands)
            ->as<TensorView>();
    out->setSourceLocation(table->sourceLocation());
    return out;
  }

  // A roll, or slices of the table, one behind the other. A lookup in an input that it is comes as
  // slices, too: what is looked up is not read by vectors if it is read for an operation.
  static TensorView* parts(const Lookup& lookup, TensorView* table, size_t dim) {
    if (lookup.offset != 0) {
      if (std::optional<Roll> roll = asRoll(table)) {
        const auto extent = constInt(logicalIds(table)[dim]->extent());
        roll->offsets[dim] = (roll->offsets[dim] + lookup.offset) % *extent;
        return rolled(*roll);
      }
    }
    return slices(lookup.positions, table, dim);
  }

  static TensorView* rolled(const Roll& roll) {
    const auto& [memory, dims] = roll.view;
    // By nothing, and each dimension is one of the memory's, in its order.
    const bool is_itself =
        std::all_of(roll.offsets.begin(), roll.offsets.end(), [](int64_t by) { return by == 0; }) &&
        dims.size() == roll.offsets.size() && std::is_sorted(dims.begin(), dims.end());
    return is_itself ? memory : ops_utils::rollDims(memory, roll.offsets, dims);
  }

  static TensorView* slices(const std::vector<Run>& positions, TensorView* table, size_t dim) {
    if (const auto* op = tryAs<IndexSelectOp>(table->definition())) {
      if (const std::vector<Run> before = positionsOf(op); !before.empty()) {
        table = slices(before, op->lookup(), static_cast<size_t>(op->dim()));
      }
    }
    const auto dims = logicalIds(table);
    std::vector<TensorView*> parts;
    for (const Run& run : positions) {
      std::vector<Val*> starts(dims.size(), table->fusion()->zeroVal());
      std::vector<Val*> stops;
      for (const IterDomain* id : dims) {
        stops.push_back(id->getMaybeExpandedExtent());
      }
      starts[dim] = IrBuilder::index(run.first);
      stops[dim] = IrBuilder::index(run.first + run.count);
      parts.push_back(slice(table, starts, stops));
    }
    return parts.size() == 1 ? parts.front() : cat(parts, static_cast<int64_t>(dim));
  }

  std::unordered_set<const TensorView*> selected_; // what lookups that came before have found
};

} // namespace

void sinkLookups(Fusion* fusion) {
  LookupSinker(fusion).run();
}

} // namespace nvfuser
