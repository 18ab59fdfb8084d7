// See reduction_params.h.
#include <scheduler/reduction_params.h>

#include <base/hash.h>
#include <base/string_utils.h>

#include <sstream>

namespace nvfuser {

namespace {

std::string fieldText(bool b) {
  return b ? "true" : "false";
}
std::string fieldText(int64_t v) {
  return std::to_string(v);
}
std::string fieldText(ParallelType t) {
  std::ostringstream os;
  os << t;
  return os.str();
}
std::string fieldText(const std::vector<int64_t>& list) {
  return "[" + join(list) + "]";
}

uint64_t fieldHash(const std::vector<int64_t>& list) {
  uint64_t h = list.size();
  for (int64_t v : list) {
    h = hashCombine(h, static_cast<uint64_t>(v));
  }
  return h;
}
template <class T>
uint64_t fieldHash(const T& v) {
  return static_cast<uint64_t>(v);
}

} // namespace

std::string ReductionParams::toString() const {
  const ReductionParams defaults(scheduler_type);
  std::vector<std::string> usual;
  forEachField(defaults, [&](const char*, const auto& v) { usual.push_back(fieldText(v)); });
  std::ostringstream os;
  os << "\n===== Reduction Parameters ========\n";
  if (!tag.empty()) {
    os << "Tag: " << tag << "\n";
  }
  os << "Scheduler: " << schedulerName(scheduler_type) << "\n"
     << (persistent_kernel ? "Persistent kernel" : "Non-persistent kernel") << "\n"
     << "Grid: (" << lparams.gdimx() << ", " << lparams.gdimy() << ", " << lparams.gdimz()
     << ") Block: (" << lparams.bdimx() << ", " << lparams.bdimy() << ", " << lparams.bdimz() << ")\n";
  size_t i = 0;
  forEachField(*this, [&](const char* name, const auto& v) {
    const std::string text = fieldText(v);
    if (text != usual[i++]) {
      os << name << ": " << text << "\n";
    }
  });
  os << "====================================\n";
  return os.str();
}

size_t ReductionParams::hash() const {
  uint64_t h = HeuristicParams::hash();
  forEachField(*this, [&](const char*, const auto& v) { h = hashCombine(h, fieldHash(v)); });
  return h;
}

bool ReductionParams::sameAs(const HeuristicParams& other) const {
  const auto* p = dynamic_cast<const ReductionParams*>(&other);
  if (p == nullptr || !HeuristicParams::sameAs(other)) {
    return false;
  }
  std::vector<std::string> mine;
  std::vector<std::string> theirs;
  forEachField(*this, [&](const char*, const auto& v) { mine.push_back(fieldText(v)); });
  forEachField(*p, [&](const char*, const auto& v) { theirs.push_back(fieldText(v)); });
  return mine == theirs;
}

} // namespace nvfuser
