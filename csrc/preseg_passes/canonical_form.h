// SPDX-License-Identifier: BSD-3-Clause
// Rewrites of a definition into its canonical form: what is computed alike is written alike,
// however it was spelled, so that the analyses after this see the same definition and lead to the
// same kernels. docs/canonical_form.md lists what each rewrite does and what it changes
// numerically; NVFUSER_DISABLE switches each off by its name there.
#pragma once

#include <fusion.h>

namespace nvfuser {

// All of them, in order, on a definition without Symbolic domains. Inputs and outputs stay the
// tensors that they are. NVFUSER_DUMP=pre_segmenter_logging prints the fusion after each that
// changed it.
void makeCanonical(Fusion* fusion);

// Lookups and scatters along rows that they do not leave are operations on rows.
void simplifyLookups(Fusion* fusion);
// What is looked up at a few positions of merged dimensions is computed of what is found there.
void findBeforeComputing(Fusion* fusion);

// Parts that a reshape gives a dimension of their own are stacked.
void stackParts(Fusion* fusion);
// Sums of parts beside zeros are the parts side by side.
void addParts(Fusion* fusion);
// All the parts that dimensions are split into, side by side, are a permutation.
void mergeParts(Fusion* fusion);
// Parts that the same operations compute of slices side by side are computed as one.
void joinParts(Fusion* fusion);

// Sums compute what is put together of parts before the other operand.
void putPartsFirst(Fusion* fusion);

// Scalars that are computed of constants become constants; so do operands all of whose elements
// are one scalar (full).
void foldConstants(Fusion* fusion);
// What reads the same constant tensor reads one of its own: loops that read it in several ways have
// nothing to share.
void makeConstantsApart(Fusion* fusion);

// x * 1, -(-x), casts there and back, permutations there and back, arithmetic on masks: what gives
// bit by bit the same with fewer operations.
void simplifyIdentities(Fusion* fusion);

// What is computed of broadcasts along the same dimensions is computed before them.
void computeBeforeBroadcasts(Fusion* fusion);

// Powers with small constant exponents are products, roots and reciprocals; chains of these are
// shorter ones.
void simplifyPowers(Fusion* fusion);

// Hyperbolic tangents that gates are made of are sigmoids.
void simplifyHyperbolics(Fusion* fusion);

// Equal operations on equal operands are one. Random numbers are never equal.
void shareCommonExpressions(Fusion* fusion);

// Sums of products that differ in factors which all terms share are one sum.
void shareSums(Fusion* fusion);

// The sums of a softmax and of a logsumexp of one tensor are one.
void shareSoftmaxSums(Fusion* fusion);

// What is summed of products with values of a row has one factor of each term.
void collectTerms(Fusion* fusion);

// Attention reads heads of keys and values that are repeated for groups of queries once.
void groupAttentionHeads(Fusion* fusion);

} // namespace nvfuser
