// SPDX-License-Identifier: BSD-3-Clause
// Heuristic parameters as named values: read, changed and written as text whatever their class.
#pragma once

#include <scheduler/params.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nvfuser {

// Parallel types are numbers.
using ParamValue = std::variant<bool, int64_t, std::vector<int64_t>>;
using ParamFields = std::vector<std::pair<std::string, ParamValue>>;

// All fields that decide about the kernel, the launch extents that schedules read ("bdimx", -1
// where unset) and the limit of registers ("maxrregcount") included. Empty for a class that lists
// no fields.
ParamFields paramFields(const HeuristicParams& params);
// A copy with some fields changed. Error: an unknown name, or a value of another kind.
std::unique_ptr<HeuristicParams> withFields(const HeuristicParams& params,
                                            const ParamFields& changes);

// One "name value" a line.
std::string paramsToText(const HeuristicParams& params);
// The parameters that gave the text; null if it does not have the fields of `like`.
std::unique_ptr<HeuristicParams> paramsFromText(const std::string& text,
                                                const HeuristicParams& like);

} // namespace nvfuser
