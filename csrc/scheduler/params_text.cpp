// SPDX-License-Identifier: BSD-3-Clause
// Visiting, changing, writing and reading the fields of parameters.
#include <scheduler/params_text.h>

#include <base/error.h>
#include <scheduler/greedy_params.h>
#include <scheduler/pointwise_params.h>
#include <scheduler/reduction_params.h>
#include <scheduler/transpose_params.h>

#include <array>
#include <optional>
#include <sstream>
#include <type_traits>

namespace nvfuser {
namespace {

// Schedules read these. The number of blocks along x follows from the shapes.
constexpr std::array<std::pair<const char*, ParallelType>, 4> kLaunchExtents = {{
    {"gdimy", ParallelType::BIDy},
    {"bdimx", ParallelType::TIDx},
    {"bdimy", ParallelType::TIDy},
    {"bdimz", ParallelType::TIDz},
}};

// Calls f(field) if the parameters are of the class P.
template <HasFields P, class F>
bool visitAs(HeuristicParams& params, F& f) {
  auto* derived = dynamic_cast<P*>(&params);
  if (derived != nullptr) {
    P::fields([&](const char* name, auto member) { f(name, derived->*member); });
  }
  return derived != nullptr;
}

// False if the class lists no fields.
template <class F>
bool visitFields(HeuristicParams& params, F f) {
  f("maxrregcount", params.cparams.maxrregcount);
  f("wanted_registers", params.cparams.wanted_registers);
  HeuristicParams::sharedFields([&](const char* name, auto member) { f(name, params.*member); });
  return visitAs<PointwiseParams>(params, f) || visitAs<TransposeParams>(params, f) ||
         visitAs<ReductionParams>(params, f) || visitAs<GreedyParams>(params, f);
}

template <class T>
ParamValue toValue(const T& field) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<int64_t>(field);
  } else {
    return field;
  }
}

template <class T>
void assign(const std::string& name, T& field, const ParamValue& value) {
  using Stored = std::conditional_t<std::is_enum_v<T>, int64_t, T>;
  const auto* stored = std::get_if<Stored>(&value);
  NVF_CHECK(stored != nullptr, "The parameter ", name, " is of another kind");
  field = static_cast<T>(*stored);
}

void setField(HeuristicParams& params, const std::string& name, const ParamValue& value) {
  for (const auto& [extent, type] : kLaunchExtents) {
    if (name == extent) {
      int64_t number = 0;
      assign(name, number, value);
      params.lparams.bindUnsafe(number, type);
      return;
    }
  }
  bool found = false;
  visitFields(params, [&](const char* field_name, auto& field) {
    if (name == field_name) {
      assign(name, field, value);
      found = true;
    }
  });
  NVF_CHECK(found, "The ", schedulerName(params.scheduler_type), " scheduler has no parameter ",
            name);
}

std::string valueText(const ParamValue& value) {
  std::ostringstream out;
  if (const auto* flag = std::get_if<bool>(&value)) {
    out << (*flag ? "true" : "false");
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    out << *number;
  } else {
    out << "[";
    for (int64_t n : std::get<std::vector<int64_t>>(value)) {
      out << " " << n;
    }
    out << " ]";
  }
  return out.str();
}

std::optional<ParamValue> valueFromText(const std::string& text) {
  if (text == "true" || text == "false") {
    return text == "true";
  }
  std::istringstream in(text);
  int64_t number = 0;
  if (text.front() != '[') {
    return in >> number && in.eof() ? std::optional<ParamValue>(number) : std::nullopt;
  }
  in.get();
  std::vector<int64_t> numbers;
  while (in >> number) {
    numbers.push_back(number);
  }
  in.clear();
  std::string end;
  in >> end;
  return end == "]" ? std::optional<ParamValue>(numbers) : std::nullopt;
}

std::string firstLine(const HeuristicParams& params) {
  return "scheduler " + std::string(schedulerName(params.scheduler_type));
}

} // namespace

ParamFields paramFields(const HeuristicParams& params) {
  ParamFields fields;
  const std::unique_ptr<HeuristicParams> copy = params.clone();
  const bool listed = visitFields(*copy, [&](const char* name, const auto& field) {
    fields.emplace_back(name, toValue(field));
  });
  if (!listed) {
    return {};
  }
  for (const auto& [name, type] : kLaunchExtents) {
    fields.emplace_back(name, params.lparams.getRawVal(type));
  }
  return fields;
}

std::unique_ptr<HeuristicParams> withFields(const HeuristicParams& params,
                                            const ParamFields& changes) {
  std::unique_ptr<HeuristicParams> changed = params.clone();
  for (const auto& [name, value] : changes) {
    setField(*changed, name, value);
  }
  return changed;
}

std::string paramsToText(const HeuristicParams& params) {
  std::string text = firstLine(params) + "\n";
  for (const auto& [name, value] : paramFields(params)) {
    text += name + " " + valueText(value) + "\n";
  }
  return text;
}

std::unique_ptr<HeuristicParams> paramsFromText(const std::string& text,
                                                const HeuristicParams& like) {
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line) || line != firstLine(like)) {
    return nullptr;
  }
  const ParamFields expected = paramFields(like);
  ParamFields fields;
  while (std::getline(in, line)) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || space + 1 == line.size()) {
      return nullptr;
    }
    const std::optional<ParamValue> value = valueFromText(line.substr(space + 1));
    const size_t position = fields.size();
    if (!value.has_value() || position >= expected.size() ||
        expected[position].first != line.substr(0, space) ||
        expected[position].second.index() != value->index()) {
      return nullptr;
    }
    fields.emplace_back(line.substr(0, space), *value);
  }
  return fields.size() == expected.size() ? withFields(like, fields) : nullptr;
}

} // namespace nvfuser
