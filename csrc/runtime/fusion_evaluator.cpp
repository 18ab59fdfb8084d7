// SPDX-License-Identifier: BSD-3-Clause
// See fusion_evaluator.h.
#include <runtime/fusion_evaluator.h>

#include <atomic>

namespace nvfuser {

namespace {

std::atomic<FusionEvaluator*> installed{nullptr};

class FusionEvaluation : public Evaluation {
 public:
  explicit FusionEvaluation(std::shared_ptr<Fusion> fusion) : fusion_(std::move(fusion)) {}

  void run(std::span<const ArgView> inputs, std::span<const ArgView> outputs,
           const PhiloxState& rng) const override {
    fusionEvaluator()->evaluate(fusion_, inputs, outputs, rng);
  }

 private:
  std::shared_ptr<Fusion> fusion_;
};

} // namespace

FusionEvaluator* fusionEvaluator() {
  return installed.load();
}

void setFusionEvaluator(std::unique_ptr<FusionEvaluator> evaluator) {
  // One that was installed before may be in use by another thread.
  installed.store(evaluator.release());
}

std::shared_ptr<const Evaluation> evaluationOf(std::shared_ptr<Fusion> fusion) {
  return std::make_shared<FusionEvaluation>(std::move(fusion));
}

} // namespace nvfuser
