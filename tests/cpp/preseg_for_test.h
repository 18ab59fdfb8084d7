// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the golden tests of the passes before segmentation: fusion -> fusion, as short texts.
#pragma once

#include "ops_for_test.h"

#include <preseg_passes/passes.h>

#include <map>
#include <sstream>
#include <string>

namespace nvfuser::test {

// A fusion's live expressions in order, one a line, and its outputs:
//
//   t0 float[i4, r8] = add(x0)
//   outputs: t0
//
// Inputs are x0, x1, ..., computed tensors t0, t1, ... as they come. Of each dimension: i
// iteration, r reduction, b broadcast (with the size that it is expanded to); an extent that is
// neither constant nor has a name of one is "?". A logical domain that is made of another one is
// followed by that one, and a memory order that differs from the logical one comes after "@".
class PresegTest : public testing_utils::OpsTest {
 protected:
  std::string text() {
    fusion_.removeDeadUses();
    Names names;
    for (const Val* v : fusion_.inputs()) {
      names.emplace(v, "x" + std::to_string(names.size()));
    }
    std::string out;
    int count = 0;
    for (const Expr* e : fusion_.exprs()) {
      std::string made;
      for (const Val* v : e->outputs()) {
        names.emplace(v, "t" + std::to_string(count++));
        made += (made.empty() ? "" : ", ") + names.at(v) + " " + typeText(v);
      }
      std::string read;
      for (const Val* v : e->inputs()) {
        read += (read.empty() ? "" : ", ") + nameOf(v, names);
      }
      out += made + " = " + opText(e) + "(" + read + ")\n";
    }
    out += "outputs:";
    for (const Val* v : fusion_.outputs()) {
      out += " " + nameOf(v, names);
    }
    return out + "\n";
  }

 private:
  using Names = std::map<const Val*, std::string>;

  static std::string opText(const Expr* e) {
    if (const auto* op = dynamic_cast<const ReductionOp*>(e)) {
      return "reduce " + std::string(opInfo(op->op()).name);
    }
    return e->opName();
  }

  static std::string nameOf(const Val* v, const Names& names) {
    const auto it = names.find(v);
    return it == names.end() ? v->toInlineString() : it->second;
  }

  static std::string idText(const IterDomain* id) {
    const Val* extent =
        id->isBroadcast() && id->hasExpandedExtent() ? id->expandedExtent() : id->extent();
    const bool is_one = id->isBroadcast() && !id->hasExpandedExtent();
    const char* tag = id->isReduction() ? "r" : id->isBroadcast() ? "b" : "i";
    return tag + (is_one ? "" : extent->isConst() ? extent->toInlineString() : "?");
  }

  static std::string idsText(const std::vector<IterDomain*>& ids) {
    std::string out;
    for (const IterDomain* id : ids) {
      out += (out.empty() ? "" : ", ") + idText(id);
    }
    return "[" + out + "]";
  }

  static std::string typeText(const Val* v) {
    const auto* tv = v->as<TensorView>();
    std::ostringstream out;
    out << tv->dtype() << idsText(tv->getLogicalDomain());
    if (tv->hasRoot()) {
      out << " of " << idsText(tv->getRootDomain());
    }
    if (tv->domain()->hasAllocation()) {
      out << " @ " << idsText(tv->getAllocationDomain());
    }
    return out.str();
  }
};

} // namespace nvfuser::test
