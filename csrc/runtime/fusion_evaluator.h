// SPDX-License-Identifier: BSD-3-Clause
// Evaluation of a fusion operation by operation, for what no kernel is made for: on a machine
// without a C++ compiler, and where a kernel could not be made.
//
// The core has no library of operations. Whoever embeds it can install an evaluator; the Python
// package installs one that uses torch.
#pragma once

#include <fusion.h>
#include <runtime/evaluation.h>

#include <memory>
#include <span>
#include <string>

namespace nvfuser {

class FusionEvaluator {
 public:
  virtual ~FusionEvaluator() = default;
  // Writes the outputs of the fusion, hidden ones included, to the tensors given. All inputs are
  // read before anything is written: an output may lie in an input's storage. Work on a GPU is
  // queued in the caller's current stream. Called without locks, by any thread.
  virtual void evaluate(const std::shared_ptr<Fusion>& fusion, std::span<const ArgView> inputs,
                        std::span<const ArgView> outputs, const PhiloxState& rng) = 0;
  // The fusion that a definition as text (definition/translate.h) stands for; null if it cannot be
  // made. Called without locks.
  virtual std::shared_ptr<Fusion> define(const std::string& text) = 0;
};

// Null until one is installed.
FusionEvaluator* fusionEvaluator();
// Stays installed until the process ends.
void setFusionEvaluator(std::unique_ptr<FusionEvaluator> evaluator);
// By the one that is installed.
std::shared_ptr<const Evaluation> evaluationOf(std::shared_ptr<Fusion> fusion);

} // namespace nvfuser
