// SPDX-License-Identifier: BSD-3-Clause
// Pass, for blocks whose threads run in loops: long sums are made in two levels (cascade
// summation). Few threads with a whole tensor to add would add thousands of terms to one register,
// and lose half of its bits; here its rounding errors are those of a few dozen additions.
//
//   T = 0                      T = 0
//   for j < n:                 for c < ceilDiv(n, 32):
//     T = T + x         ->       P = 0
//                                for c * 32 <= j < min(c * 32 + 32, n):
//                                  P = P + x
//                                T = T + P
//
// (N. J. Higham, "The Accuracy of Floating Point Summation", 1993, section 3.)
#include <ir/builder.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>
#include <lower/context.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

namespace {

using B = IrBuilder;

// Terms of a partial sum. A block adds a few thousand values to a register (scheduler): about as
// many partial sums.
constexpr int64_t kTerms = 32;

// T[i] = T[i] + x; null: it is something else.
const ElementwiseOp* accumulation(const Expr* e) {
  const auto* op = tryAs<ElementwiseOp>(e);
  if (op == nullptr || op->op() != OpType::Add) {
    return nullptr;
  }
  const auto* to = tryAs<TensorIndex>(op->output(0));
  const auto* from = tryAs<TensorIndex>(op->in(0));
  return to != nullptr && from != nullptr && to->view() == from->view() &&
                 to->index()->sameAs(from->index())
             ? op
             : nullptr;
}

const TensorView* sumOf(const ElementwiseOp* accumulation) {
  return accumulation->output(0)->as<TensorIndex>()->view();
}

// How a list of statements uses registers: those that it only adds to, and all others.
class Uses {
 public:
  explicit Uses(const Statements& list) {
    forEachStatement(list, [&](const Expr* e) { visit(e); });
  }

  // In their order.
  std::vector<const TensorView*> onlyAddedTo() const {
    std::vector<const TensorView*> out;
    std::copy_if(added_.begin(), added_.end(), std::back_inserter(out),
                 [&](const TensorView* tv) { return other_.count(tv) == 0; });
    return out;
  }
  // Elements of the sum that are added to.
  const std::vector<const Val*>& elementsOf(const TensorView* sum) const {
    return elements_.at(sum);
  }

 private:
  void visit(const Expr* e) {
    const ElementwiseOp* sum = accumulation(e);
    if (sum == nullptr) {
      const TensorAccesses accesses = tensorAccessesOf(e);
      other_.insert(accesses.read.begin(), accesses.read.end());
      other_.insert(accesses.written.begin(), accesses.written.end());
      return;
    }
    if (elements_.find(sumOf(sum)) == elements_.end()) {
      added_.push_back(sumOf(sum));
    }
    const Val* element = sum->output(0)->as<TensorIndex>()->index();
    elements_[sumOf(sum)].push_back(element);
    for (const Val* v : {element, static_cast<const Val*>(sum->in(1))}) {
      forTensorsIn(v, [&](const TensorView* tv) { other_.insert(tv); });
    }
  }

  std::vector<const TensorView*> added_;
  std::unordered_map<const TensorView*, std::vector<const Val*>> elements_;
  std::unordered_set<const TensorView*> other_;
};

class SumCascader : public StatementRewriter {
 public:
  explicit SumCascader(Kernel* kernel) : threads_(kernel->thread_loops) {}

 private:
  void rewrite(Expr* e, Statements& out) override {
    if (auto* loop = tryAs<ForLoop>(e)) {
      return out.push_back(inTwoLevels(loop));
    }
    if (auto* allocate = tryAs<Allocate>(e)) {
      allocated_[allocate->tv()] = allocate;
    }
    StatementRewriter::rewrite(e, out);
  }

  // The innermost long loops first: what is added to in one of those is done with.
  Expr* inTwoLevels(ForLoop* loop) {
    const std::vector<const TensorView*> sums = sumsOver(loop);
    rewriteBodies(loop);
    std::unordered_map<const TensorView*, TensorView*> partials;
    std::vector<TensorView*> in_order;
    for (const TensorView* sum : sums) {
      const Allocate* allocate = allocated_.at(sum);
      const int64_t bytes =
          allocate->size()->intValue() * threads_.threads() * dataTypeSizeBytes(sum->dtype());
      if (done_.count(sum) != 0 ||
          threads_.register_bytes + bytes > ThreadLoops::kMostRegisterBytes) {
        continue;
      }
      threads_.register_bytes += bytes;
      done_.insert(sum);
      in_order.push_back(allocate->tv());
      partials[sum] = B::create<TensorView>(sum->domain(), sum->dtype());
      threads_.registers[partials[sum]] = threads_.registers.at(sum);
    }
    return partials.empty() ? loop : cascade(loop, in_order, partials);
  }

  // That the loop only adds to, over and over to the same elements, and that live longer.
  std::vector<const TensorView*> sumsOver(const ForLoop* loop) const {
    if (loop->isTrivial() ||
        (loop->extent()->isConstInt() && loop->extent()->intValue() <= 2 * kTerms)) {
      return {};
    }
    const Uses uses(loop->body());
    std::vector<const TensorView*> sums = uses.onlyAddedTo();
    std::erase_if(sums, [&](const TensorView* tv) {
      const auto* reduction = tryAs<ReductionOp>(tv->definition());
      const auto& elements = uses.elementsOf(tv);
      return reduction == nullptr || !isInexact(tv->dtype()) || allocated_.count(tv) == 0 ||
             threads_.registers.count(tv) == 0 ||
             std::any_of(elements.begin(), elements.end(),
                         [&](const Val* v) { return dependsOn(v, loop->index()); });
    });
    return sums;
  }

  Expr* cascade(ForLoop* loop, const std::vector<TensorView*>& sums,
                const std::unordered_map<const TensorView*, TensorView*>& partials) {
    Val* terms = B::index(kTerms);
    auto* part = B::create<NamedScalar>("c" + std::to_string(loop->loopId()), DataType::Index);
    ForLoop* parts = loop->like(part, B::ceilDivExpr(loop->extent(), terms));
    for (TensorView* sum : sums) {
      TensorView* partial = partials.at(sum);
      const Allocate* allocate = allocated_.at(sum);
      parts->body().push_back(allocate->copyFor(partial));
      parts->body().push_back(forEachElement(loop, allocate->size(), [&](Val* at) {
        return B::create<LoadStoreOp>(LoadStoreOpType::Set, B::create<TensorIndex>(partial, at),
                                      sum->definition()->as<ReductionOp>()->init());
      }));
    }
    Val* first = B::mulExpr(part, terms);
    ForLoop* own = loop->like(loop->index(), B::minExpr(B::addExpr(first, terms), loop->extent()));
    own->setFirst(first);
    own->body() = addedTo(loop->body(), partials);
    parts->body().push_back(own);
    for (TensorView* sum : sums) {
      parts->body().push_back(forEachElement(loop, allocated_.at(sum)->size(), [&](Val* at) {
        return B::create<ElementwiseOp>(
            OpType::Add, B::create<TensorIndex>(sum, at),
            std::vector<Val*>{B::create<TensorIndex>(sum, at),
                              B::create<TensorIndex>(partials.at(sum), at)});
      }));
    }
    return parts;
  }

  // Of all threads.
  template <class Make>
  static Expr* forEachElement(const ForLoop* loop, Val* size, Make make) {
    if (size->isOneInt()) {
      return B::create<ThreadLoop>(std::array<Val*, 3>{}, Statements{make(B::index(0))});
    }
    auto* at = B::create<NamedScalar>("e" + std::to_string(loop->loopId()), DataType::Index);
    ForLoop* elements = loop->like(at, size);
    elements->body().push_back(B::create<ThreadLoop>(std::array<Val*, 3>{}, Statements{make(at)}));
    return elements;
  }

  static Statements addedTo(const Statements& list,
                            const std::unordered_map<const TensorView*, TensorView*>& partials) {
    Statements out;
    for (Expr* e : list) {
      for (Statements* body : bodiesOf(e)) {
        *body = addedTo(*body, partials);
      }
      if (const ElementwiseOp* sum = accumulation(e);
          sum != nullptr && partials.count(sumOf(sum)) != 0) {
        TensorView* partial = partials.at(sumOf(sum));
        Val* at = sum->output(0)->as<TensorIndex>()->index();
        e = B::create<ElementwiseOp>(
            OpType::Add, B::create<TensorIndex>(partial, at),
            std::vector<Val*>{B::create<TensorIndex>(partial, at), sum->in(1)});
      }
      out.push_back(e);
    }
    return out;
  }

  ThreadLoops& threads_;
  std::unordered_map<const TensorView*, const Allocate*> allocated_; // in what has been visited
  std::unordered_set<const TensorView*> done_;
};

} // namespace

Statements cascadeSums(LowerContext& ctx, const Statements& nest) {
  return SumCascader(ctx.kernel()).run(nest);
}

} // namespace nvfuser
