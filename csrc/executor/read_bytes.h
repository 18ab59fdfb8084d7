// SPDX-License-Identifier: BSD-3-Clause
// How much of its inputs a kernel reads, for reports.
#pragma once

#include <fusion.h>
#include <runtime/kernel_args.h>

#include <span>

namespace nvfuser {

// Bytes of the inputs that a segment reads: of what is only sliced or looked up in, the parts that
// are read. Parts that several operations read count for each of them, up to the whole input.
int64_t readBytes(Fusion& segment, std::span<const ArgView> inputs);

} // namespace nvfuser
