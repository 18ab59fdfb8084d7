// SPDX-License-Identifier: BSD-3-Clause
// Ways through lists of statements and what is in them: loops and branches have lists of their own.
#pragma once

#include <kernel/nodes.h>

#include <vector>

namespace nvfuser {

// A statement, then those in it, in their order.
template <class Visit>
void forEachStatement(const Expr* e, Visit&& visit) {
  visit(e);
  for (const std::vector<Expr*>* body : bodiesOf(e)) {
    forEachStatement(*body, visit);
  }
}

template <class Visit>
void forEachStatement(const std::vector<Expr*>& list, Visit&& visit) {
  for (const Expr* e : list) {
    forEachStatement(e, visit);
  }
}

// Whether `holds` of the statement (of one of the list), or of one in it.
template <class Statement, class Holds>
bool holdsWithin(const Statement& in, Holds holds) {
  bool found = false;
  forEachStatement(in, [&](const Expr* each) { found = found || holds(each); });
  return found;
}

// A copy of a loop or branch around what `rewritten` makes of each list in it; null: it is another
// statement.
template <class Rewritten>
Expr* copyWithBodies(const Expr* e, Rewritten rewritten) {
  if (const auto* loop = tryAs<ForLoop>(e)) {
    ForLoop* copy = loop->emptyCopy();
    copy->body() = rewritten(loop->body());
    return copy;
  }
  if (const auto* branch = tryAs<IfThenElse>(e)) {
    auto* copy = IrBuilder::create<IfThenElse>(branch->condition());
    copy->thenBody() = rewritten(branch->thenBody());
    copy->elseBody() = rewritten(branch->elseBody());
    return copy;
  }
  return nullptr;
}

// Rewrites lists of statements. A pass derives from it, and says what takes the place of those that
// it knows.
class StatementRewriter {
 public:
  virtual ~StatementRewriter() = default;

  std::vector<Expr*> run(const std::vector<Expr*>& list) {
    std::vector<Expr*> out;
    for (Expr* e : list) {
      rewrite(e, out);
    }
    return out;
  }

 protected:
  // Appends what takes the statement's place: itself, with what is in it rewritten.
  virtual void rewrite(Expr* e, std::vector<Expr*>& out) {
    rewriteBodies(e);
    out.push_back(e);
  }

  // Of loops and branches. Loops over threads stay what they are.
  void rewriteBodies(Expr* e) {
    if (e->kind() != ExprKind::ThreadLoop) {
      for (std::vector<Expr*>* body : bodiesOf(e)) {
        *body = run(*body);
      }
    }
  }
};

} // namespace nvfuser
