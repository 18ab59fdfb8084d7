// SPDX-License-Identifier: BSD-3-Clause
// See verify.h.
#include <fusion/verify.h>

#include <base/error.h>
#include <ir/logical_map.h>
#include <ir/visitor.h>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace nvfuser {

namespace {

using Ids = TensorDomain::Ids;

template <class List, class T>
bool contains(const List& list, const T& what) {
  return std::find(list.begin(), list.end(), what) != list.end();
}

class FusionVerifier {
 public:
  FusionVerifier(const Fusion* fusion, const char* pass) : fusion_(fusion), pass_(pass) {}

  void run() {
    for (const Val* in : fusion_->inputs()) {
      check(in->isFusionInput() && in->definition() == nullptr, "an input has no definition", in);
      defined_.insert(in);
      checkDomains(in);
    }
    for (const Expr* e : fusion_->exprs()) {
      checkLinks(e);
      for (const TensorView* out : tensorOutputs(e)) {
        for (const TensorView* in : tensorInputs(e)) {
          checkAxes(in, out);
        }
      }
    }
    for (size_t i = 0; i < fusion_->outputs().size(); ++i) {
      const Val* out = fusion_->outputs()[i];
      check(out->isFusionOutput() && defined_.contains(out), "an output is computed", out);
      const Val* alias = fusion_->outputAliases().at(i).input;
      check(alias == nullptr || contains(fusion_->inputs(), alias),
            "what an output is written to is an input", out);
    }
  }

 private:
  template <class Node>
  void check(bool holds, const char* rule, const Node* node,
             const std::string& details = "") const {
    NVF_ERROR(holds, "after the pass \"", pass_, "\" it does not hold that ", rule, ": ",
              node == nullptr ? "null" : node->toString(), details);
  }

  void checkLinks(const Expr* e) {
    for (const TensorView* in : tensorInputs(e)) {
      check(contains(in->uses(), e), "an operand knows who reads it", e);
      check(defined_.contains(in), "a tensor is defined before it is read", e,
            "reads " + in->toString());
    }
    for (const Val* out : e->outputs()) {
      check(out->definition() == e, "a result has the expression for its definition", e);
      defined_.insert(out);
      checkDomains(out);
    }
  }

  void checkAxes(const TensorView* in, const TensorView* out) const {
    const Expr* e = out->definition();
    const size_t rank = logicalIds(in).size();
    if (e->kind() == ExprKind::ReshapeOp && rank != out->getMaybeRootDomain().size()) {
      return; // its dimensions are not related yet
    }
    check(e->kind() != ExprKind::ElementwiseOp || rank == out->getMaybeRootDomain().size(),
          "operands have as many dimensions as the result", e);
    for (const auto& [from, to] : producerConsumerPairs(in, out)) {
      // A slice and a pad change how often an element is there.
      const bool cuts = e->kind() == ExprKind::SliceOp || e->kind() == ExprKind::PadOp;
      const char* rule = cuts && from->isBroadcast() ? nullptr : brokenRule(from, to);
      check(rule == nullptr, rule, e,
            " " + from->toString() + " of " + in->toString() + " is " + to->toString());
    }
  }

  // What holds of a dimension of an operand and the same one of a result, and does not here; null
  // if everything does.
  static const char* brokenRule(const IterDomain* from, const IterDomain* to) {
    if (from->isSymbolicType() || to->isSymbolicType()) {
      return nullptr;
    }
    if (from->isOne()) {
      return nullptr; // one element beside any number of them
    }
    if (to->isOne()) {
      return from->isBroadcast() ? "what is expanded in an operand is so in the result"
                                 : "a dimension of an operand is no broadcast in the result";
    }
    const Val* a = from->getMaybeExpandedExtent();
    const Val* b = to->getMaybeExpandedExtent();
    return a->isConstInt() && b->isConstInt() && a->value() != b->value()
               ? "a dimension has one size in operands and results"
               : nullptr;
  }

  using IdSet = std::unordered_set<const Val*>;

  // Everything that ids are made of from a tensor's first dimensions on, themselves included.
  static IdSet madeOf(const Ids& ids, const TensorDomain* domain) {
    IdSet out(ids.begin(), ids.end());
    for (const Expr* e : exprsBefore({ids.begin(), ids.end()},
                                     {domain->maybeRoot().begin(), domain->maybeRoot().end()})) {
      out.insert(e->inputs().begin(), e->inputs().end());
    }
    return out;
  }

  void checkDomains(const Val* v) const {
    if (!v->isTensor()) {
      return;
    }
    const auto* tv = v->as<TensorView>();
    const TensorDomain* domain = tv->domain();
    check(domain->contiguity().size() == domain->maybeAllocation().size(),
          "contiguity is known of each dimension in memory", tv);
    const IdSet of_loops = madeOf(domain->loop(), domain);
    checkOrigins(tv, madeOf(domain->logical(), domain),
                 "dimensions are made of those of the operands");
    checkOrigins(tv, of_loops, "loops are made of the tensor's dimensions");
    checkOrigins(tv, madeOf(domain->maybeAllocation(), domain),
                 "memory is made of the tensor's dimensions");
    for (const IterDomain* id : domain->logical()) {
      check(id->isBroadcast() || of_loops.contains(id), "loops run over each dimension", tv,
            " lacks " + id->toString());
    }
  }

  // Of domains that are made of a tensor's: each begins with one of these, or has one iteration.
  void checkOrigins(const TensorView* tv, const IdSet& made, const char* rule) const {
    const Ids& root = tv->getMaybeRootDomain();
    for (const Val* v : made) {
      const auto* id = v->as<IterDomain>();
      check(id->container() == fusion_, "a dimension is of this fusion", tv, id->toString());
      check(id->definition() != nullptr || id->isBroadcast() || contains(root, id), rule, tv,
            " has " + id->toString());
    }
  }

  const Fusion* fusion_;
  const char* pass_;
  std::unordered_set<const Val*> defined_;
};

} // namespace

void verifyFusion(const Fusion* fusion, const char* pass) {
  FusionVerifier(fusion, pass).run();
}

} // namespace nvfuser
