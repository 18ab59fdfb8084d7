// See fusion_evaluator.h.
#include <runtime/fusion_evaluator.h>

#include <atomic>

namespace nvfuser {

namespace {

std::atomic<FusionEvaluator*> installed{nullptr};

} // namespace

FusionEvaluator* fusionEvaluator() {
  return installed.load();
}

void setFusionEvaluator(std::unique_ptr<FusionEvaluator> evaluator) {
  // One that was installed before may be in use by another thread.
  installed.store(evaluator.release());
}

} // namespace nvfuser
