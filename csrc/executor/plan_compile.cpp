// SPDX-License-Identifier: BSD-3-Clause
// The kernels of a call that nobody has compiled yet, and those that other calls compile.
#include <executor/plan_call.h>

#include <base/error.h>

namespace nvfuser {

Planner::Call::Choice Planner::Call::compileKernels(ConcreteFusion& concrete,
                                                    std::unique_lock<std::mutex>& lock) {
  revision = concrete.revision;
  enterUncompiled();
  if (!uncompiled.empty()) {
    compileOwn(lock);
  }
  waitForOthers(lock);
  if (concrete.revision != revision) {
    return Choice::Simplified;
  }
  for (size_t s = 0; s < kernels.size(); ++s) {
    const std::exception_ptr& error = kernels[s]->error;
    if (error == nullptr) {
      continue;
    }
    SegmentState& state = *concrete.segments[s];
    try {
      std::rethrow_exception(error);
    } catch (const InternalError& e) {
      if (!simplifyAfter(e, concrete, state)) {
        throw;
      }
    }
    return Choice::Simplified;
  }
  return Choice::Done;
}

// From here on other calls find them.
void Planner::Call::enterUncompiled() {
  for (Compilation& each : uncompiled) {
    each.variant->compiled = each.finished.get_future().share();
    each.state->variants.push_back(each.variant);
  }
}

void Planner::Call::compileOwn(std::unique_lock<std::mutex>& lock) {
  std::vector<CompileOutcome> outcomes;
  lock.unlock();
  try {
    std::vector<CompileRequest> requests;
    for (const Compilation& each : uncompiled) {
      requests.push_back(each.variant->executor->compileRequest());
    }
    outcomes = compileEach(requests);
  } catch (...) {
    // Whoever waits is told.
    outcomes.assign(uncompiled.size(), {nullptr, std::current_exception()});
  }
  lock.lock();
  finishOwn(outcomes);
}

void Planner::Call::finishOwn(const std::vector<CompileOutcome>& outcomes) {
  for (size_t i = 0; i < uncompiled.size(); ++i) {
    KernelVariant& variant = *uncompiled[i].variant;
    variant.error = outcomes[i].error;
    if (variant.error == nullptr) {
      try {
        variant.executor->setModule(outcomes[i].module);
        planner.kernel_keys_.insert(outcomes[i].module->key());
      } catch (...) {
        variant.error = std::current_exception();
      }
    }
    if (variant.error != nullptr) {
      std::erase(uncompiled[i].state->variants, uncompiled[i].variant);
    }
    uncompiled[i].finished.set_value();
  }
  uncompiled.clear();
}

void Planner::Call::waitForOthers(std::unique_lock<std::mutex>& lock) const {
  std::vector<std::shared_future<void>> pending;
  for (const auto& kernel : kernels) {
    if (!kernel->executor->isCompiled() && kernel->error == nullptr) {
      pending.push_back(kernel->compiled);
    }
  }
  if (pending.empty()) {
    return;
  }
  lock.unlock();
  for (const std::shared_future<void>& each : pending) {
    each.wait();
  }
  lock.lock();
}

} // namespace nvfuser
