// SPDX-License-Identifier: BSD-3-Clause
// Which dimensions have the same size by the ops between them. A permissive graph has all that one
// broadcast becomes in one group, of whatever sizes: in max(x[i], b[1]) and max(y[j], b[1]) both i
// and j. Loops that are scheduled for i must not be those of j.
#pragma once

#include <base/disjoint_set.h>
#include <fusion.h>

namespace nvfuser {

class SameSizes {
 public:
  SameSizes() = default;
  explicit SameSizes(const Fusion* fusion);

  void map(const IterDomain* a, const IterDomain* b) {
    classes_.mapEntries(a, b);
  }
  bool haveSameSize(const IterDomain* a, const IterDomain* b) const;

 private:
  DisjointSets<const IterDomain*> classes_;
};

} // namespace nvfuser
