// SPDX-License-Identifier: BSD-3-Clause
// What is known of the loops of a segment's kernel before it is scheduled: whether an output may be
// written over an input that nobody needs any more (executor/overwrites.h).
#pragma once

#include <segment/segment.h>

namespace nvfuser {

// Whether each element of a tensor is read and written by one thread, however it is scheduled.
bool visitsEachElementOnce(const Segment& segment);

// The loops of a segment are those of its largest tensors: of one of these each thread has elements
// of its own. A dimension of size 1 is no loop if it is none of any tensor.
bool isLargest(const Segment& segment, const TensorView* tv);

} // namespace nvfuser
