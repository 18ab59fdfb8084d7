// SPDX-License-Identifier: BSD-3-Clause
// See verify.h.
#include <kernel/verify.h>

#include <base/error.h>
#include <ir/visitor.h>
#include <kernel/accesses.h>
#include <kernel/traverse.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser {

namespace {

using Statements = std::vector<Expr*>;
using Vals = std::vector<const Val*>;

class StatementVerifier {
 public:
  StatementVerifier(const Kernel* kernel, const char* pass) : kernel_(kernel), pass_(pass) {}

  void run() {
    for (const Val* in : kernel_->inputs()) {
      addTold(in);
    }
    for (const Val* out : kernel_->outputs()) {
      addTold(out);
    }
    for (const LaunchNumber& n : kernel_->launchNumbers()) {
      told_.insert(n.number);
    }
    for (const AsyncBuffer& buffer : kernel_->async_buffers) {
      told_.insert(buffer.iteration);
    }
    gather(kernel_->top_level);
    Vals allocated;
    visit(kernel_->top_level, allocated);
  }

 private:
  void check(bool holds, const char* rule, const Expr* e, const Val* v) const {
    NVF_ERROR(holds, "after the pass \"", pass_, "\" it does not hold that ", rule, ": ",
              v->toInlineString(), " in\n", e->toString());
  }

  // Values of parameters, and the sizes that come with tensors.
  void addTold(const Val* v) {
    told_.insert(v);
    if (v->isTensor()) {
      for (const IterDomain* id : v->as<TensorView>()->domain()->allIds()) {
        told_.insert({id->extent(), id->expandedExtent()});
      }
    }
  }

  // Which indices loops have, which tensors are allocated and written at all.
  void gather(const Statements& list) {
    forEachStatement(list, [&](const Expr* e) {
      if (const NamedScalar* index = indexOf(e)) {
        indices_.insert(index->text());
      }
      has_buffers_ = has_buffers_ || e->kind() == ExprKind::Allocate;
      for (const Val* v : accessesOf(e).written) {
        written_.insert(tensorOf(v));
      }
    });
  }

  // `allocated`: buffers of the scope that the list is in.
  void visit(const Statements& list, Vals& allocated) {
    for (const Expr* e : list) {
      if (const auto* memory = tryAs<Allocate>(e)) {
        check(buffers_.insert(memory->tv()).second, "a buffer is allocated once in a scope", e,
              memory->tv());
        allocated.push_back(memory->tv());
      }
      const Accesses accesses = accessesOf(e);
      for (const Val* v : accesses.read) {
        checkRead(e, v);
      }
      for (const Val* v : accesses.written) {
        checkWritten(e, v);
      }
      for (const Val* v : accesses.updated) {
        checkRead(e, v);
      }
      const NamedScalar* index = indexOf(e);
      if (index != nullptr) {
        check(around_.insert(index->text()).second, "loops in each other count apart", e, index);
      }
      visitBodies(e, allocated);
      if (index != nullptr) {
        around_.erase(index->text());
      }
    }
  }

  // Each is a scope, but for loops that are not printed.
  void visitBodies(const Expr* e, Vals& allocated) {
    const auto* loop = tryAs<ForLoop>(e);
    if (loop != nullptr && loop->isTrivial()) {
      return visit(loop->body(), allocated);
    }
    for (const Statements* body : bodiesOf(e)) {
      Vals own;
      visit(*body, own);
      for (const Val* tv : own) {
        buffers_.erase(tv);
      }
    }
  }

  // Null: a loop over threads or blocks, or one of which the index is known. Simplification takes
  // indices of one name for the same, so that loops next to each other are told apart by nothing
  // else.
  static const NamedScalar* indexOf(const Expr* e) {
    const auto* loop = tryAs<ForLoop>(e);
    return loop == nullptr || isParallelTypeThread(loop->parallelType())
               ? nullptr
               : tryAs<NamedScalar>(loop->index());
  }

  static const Val* tensorOf(const Val* v) {
    const auto* element = tryAs<TensorIndex>(v);
    return element == nullptr ? v : element->view();
  }

  void checkBuffer(const Expr* e, const Val* tensor) const {
    const bool is_buffer =
        tensor->isTensor() && tensor->as<TensorView>()->getMemoryType() != MemoryType::Global;
    check(!is_buffer || !has_buffers_ || buffers_.contains(tensor),
          "a buffer is accessed where it is allocated", e, tensor);
  }

  void checkRead(const Expr* e, const Val* v) {
    if (v == nullptr) {
      return;
    }
    for (const Val* leaf : leavesOf(v)) {
      if (leaf->isTensor()) {
        checkBuffer(e, leaf);
        check(told_.contains(leaf) || written_.contains(leaf), "what is read is written", e, leaf);
      } else if (const auto* named = tryAs<NamedScalar>(leaf)) {
        check(!indices_.contains(named->text()) || around_.contains(named->text()),
              "the index of a loop is read in that loop", e, leaf);
      } else {
        check(told_.contains(leaf), "a scalar is computed or known", e, leaf);
      }
    }
  }

  void checkWritten(const Expr* e, const Val* v) {
    checkBuffer(e, tensorOf(v));
    if (const auto* element = tryAs<TensorIndex>(v)) {
      checkRead(e, element->index());
    }
  }

  // The tensors and the scalars without definition that a value depends on, indices of elements
  // included. Before tensors are indexed a tensor is a leaf, whatever computes it.
  const Vals& leavesOf(const Val* v) {
    if (const auto it = leaves_.find(v); it != leaves_.end()) {
      return it->second;
    }
    std::unordered_set<const Val*> found;
    const auto add = [&](const Val* operand) {
      const Vals& of_operand = leavesOf(operand);
      found.insert(of_operand.begin(), of_operand.end());
    };
    if (const auto* element = tryAs<TensorIndex>(v)) {
      found.insert(element->view());
      add(element->index());
    } else if (v->isTensor() || (!v->isConst() && v->definition() == nullptr) ||
               told_.contains(v)) {
      found.insert(v);
    } else if (v->definition() != nullptr) {
      for (const Val* operand : v->definition()->inputs()) {
        add(operand);
      }
    }
    return leaves_.emplace(v, Vals(found.begin(), found.end())).first->second;
  }

  const Kernel* kernel_;
  const char* pass_;
  std::unordered_set<const Val*> told_;     // by the launch
  std::unordered_set<std::string> indices_; // of all loops but those over threads and blocks
  std::unordered_set<const Val*> written_;  // anywhere
  bool has_buffers_ = false;                // they are allocated
  std::unordered_set<std::string> around_;  // indices of the loops around
  std::unordered_set<const Val*> buffers_;  // those of the scopes around
  std::unordered_map<const Val*, Vals> leaves_;
};

} // namespace

void verifyStatements(const Kernel* kernel, const char* pass) {
  StatementVerifier(kernel, pass).run();
}

} // namespace nvfuser
