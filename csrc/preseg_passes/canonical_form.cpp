// SPDX-License-Identifier: BSD-3-Clause
// The list of rewrites into the canonical form.
#include <preseg_passes/canonical_form.h>

#include <base/options.h>
#include <preseg_passes/passes.h>

namespace nvfuser {

void makeCanonical(Fusion* fusion) {
  const FusionGuard guard(fusion);
  PassLog pass = logOfPasses(fusion);
  const auto unless = [&](DisableOption option, const char* name, void (*rewrite)(Fusion*)) {
    if (!isOptionDisabled(option)) {
      pass(name, [&] { rewrite(fusion); });
    }
  };
  unless(DisableOption::SimplifyLookups, "simplify lookups", simplifyLookups);
  unless(DisableOption::SimplifyLookups, "find before computing", findBeforeComputing);
  unless(DisableOption::MergeParts, "stack parts", stackParts);
  unless(DisableOption::MergeParts, "add parts", addParts);
  unless(DisableOption::MergeParts, "merge parts", mergeParts);
  unless(DisableOption::MergeParts, "join parts", joinParts);
  unless(DisableOption::FoldConstants, "fold constants", foldConstants);
  unless(DisableOption::SimplifyIdentities, "simplify identities", simplifyIdentities);
  // While heads that are repeated still have the dimensions that they are repeated along.
  unless(DisableOption::GroupAttentionHeads, "group attention heads", groupAttentionHeads);
  // A value before its broadcast is one that chains of powers can be seen through.
  unless(DisableOption::ComputeBeforeBroadcasts, "compute before broadcasts",
         computeBeforeBroadcasts);
  unless(DisableOption::SimplifyPowers, "simplify powers", simplifyPowers);
  unless(DisableOption::SimplifyHyperbolics, "simplify hyperbolics", simplifyHyperbolics);
  // What was moved and rewritten may be equal now, or undo itself. Identities share on their way.
  if (isOptionDisabled(DisableOption::SimplifyIdentities)) {
    unless(DisableOption::ShareCommonExpressions, "share common expressions",
           shareCommonExpressions);
  } else {
    unless(DisableOption::SimplifyIdentities, "simplify identities", simplifyIdentities);
  }
  // Identities lead to more operations on constants alone.
  unless(DisableOption::FoldConstants, "fold constants", foldConstants);
  unless(DisableOption::ShareSums, "share softmax sums", shareSoftmaxSums);
  unless(DisableOption::ShareSums, "share sums", shareSums);
  unless(DisableOption::CollectTerms, "collect terms", collectTerms);
  unless(DisableOption::FoldConstants, "make constants apart", makeConstantsApart);
  unless(DisableOption::MergeParts, "parts first", putPartsFirst);
  fusion->removeDeadUses();
}

} // namespace nvfuser
