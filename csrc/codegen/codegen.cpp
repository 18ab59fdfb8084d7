// SPDX-License-Identifier: BSD-3-Clause
// Kernel IR -> text. One expression, one statement; what does not depend on an inner loop is
// computed outside of it under a name; loops over thread and block dimensions and loops of one
// iteration print nothing.
//
// The text depends on the kernel alone: it is the key of the kernel cache.
#include <codegen/codegen.h>

#include <base/error.h>
#include <codegen/kernel_printer.h>
#include <kernel/traverse.h>
#include <lower/reductions.h>

#include <algorithm>

namespace nvfuser::codegen {

std::string KernelPrinter::print(const std::string& name) {
  scopes_.emplace_back();
  if (kernel_->shared_bytes != nullptr) {
    line("NVF_DYNAMIC_SHARED(smem);");
  }
  nameThreadIndices();
  must_wait_ = kernel_->order.waits_for_previous;
  if (!must_wait_) {
    letNextStart();
  }
  forEachStatement(kernel_->top_level, [&](const Expr* e) {
    last_reduction_ = e->kind() == ExprKind::ThreadReduce ? e : last_reduction_;
  });
  declareFlags(kernel_->top_level);
  for (const Expr* e : kernel_->top_level) {
    statement(e);
  }
  NVF_ERROR(!must_wait_, "a kernel that writes nothing");
  std::string settings;
  if (kernel_->thread_loops.exist) {
    settings = "#define " + std::string(kThreadsInLoops) + "\n";
  } else if (kernel_->load_warps.exist()) {
    settings = "#define " + std::string(kComputingThreads) + " " +
               std::to_string(kernel_->load_warps.compute_threads) + "\n";
  }
  return settings + "NVF_KERNEL(" + name + ", " + std::to_string(maxThreads()) + ", (" +
         parameters() + ")) {\n" + scopes_.back().text + "}\n";
}

std::optional<int64_t> KernelPrinter::numThreads() const {
  const bool is_constant = std::all_of(
      kernel_->parallel_extents.begin(), kernel_->parallel_extents.end(), [](const auto& bound) {
        return !isParallelTypeThreadDim(bound.first) || bound.second->isConstInt();
      });
  return is_constant ? std::optional<int64_t>(maxBlockThreads(kernel_)) : std::nullopt;
}

int64_t KernelPrinter::maxThreads() const {
  constexpr int64_t kMostThreads = 1024;
  const int64_t threads = maxBlockThreads(kernel_) + kernel_->load_warps.load_threads;
  return std::clamp<int64_t>(threads, 1, kMostThreads);
}

std::string KernelPrinter::parameters() const {
  std::string out;
  for (const KernelParam& p : kernel_->params) {
    if (!out.empty()) {
      out += ", ";
    }
    if (p.kind == KernelParam::Kind::Workspace) {
      out += "char* " + p.name;
    } else if (p.kind == KernelParam::Kind::Semaphores) {
      out += "unsigned* " + p.name;
    } else if (p.kind == KernelParam::Kind::TensorMap) {
      out += "NVF_TENSOR_MAP(" + p.name + ")";
    } else if (p.kind == KernelParam::Kind::Tensor &&
               static_cast<TensorView*>(p.val)->isCpuScalar()) {
      out += "CpuScalar<" + std::string(kernelTypeName(p.dtype)) + "> " + p.name;
    } else if (p.kind == KernelParam::Kind::Tensor) {
      out += "Tensor<" + std::string(kernelTypeName(p.dtype)) + ", " +
             std::to_string(p.logical_rank) + ", " + std::to_string(p.alloc_rank) + "> " + p.name;
    } else {
      out += std::string(kernelTypeName(p.dtype)) + " " + p.name;
    }
  }
  return out;
}

void KernelPrinter::nameExtents() {
  for (const KernelParam& p : kernel_->params) {
    if (p.kind == KernelParam::Kind::Scalar) {
      const bool is_wide = p.dtype == DataType::Int || p.dtype == DataType::UInt64;
      nameParam(p, {p.name, 0, false, is_wide});
    }
    if (p.kind != KernelParam::Kind::Tensor) {
      continue;
    }
    const auto ids = logicalIds(p.val);
    for (size_t i = 0; i < ids.size(); ++i) {
      const Val* extent = ids[i]->getMaybeExpandedExtent();
      if (!extent->isConst() && extent->definition() == nullptr) {
        names_.try_emplace(extent, Text{p.name + ".logical_size[" + std::to_string(i) + "]"});
      }
    }
  }
}

void KernelPrinter::nameParam(const KernelParam& p, const Text& name) {
  const auto add = [&](const Val* v) {
    names_.try_emplace(v, name);
    if (v->dtype() == DataType::Index && name.wide && kernel_->index_type == DataType::Int32) {
      names_in_indices_.try_emplace(v, Text{"nvfuser_index_t(" + name.text + ")"});
    }
  };
  add(p.val);
  for (const Val* v : p.equal) {
    add(v);
  }
}

void KernelPrinter::nameThreadIndices() {
  for (const auto& [type, extent] : kernel_->parallel_extents) {
    if (extent->isOneInt()) {
      continue;
    }
    const std::string tag(parallelTag(type)); // "threadIdx.x"
    const std::string name =
        (isParallelTypeThreadDim(type) ? "t" : "b") + tag.substr(tag.size() - 1);
    thread_names_[tag] = name;
    if (kernel_->thread_loops.exist && isParallelTypeThreadDim(type)) {
      continue; // a loop's, see overThreads()
    }
    const bool reversed = kernel_->order.reverses_blocks && isParallelTypeBlockDim(type);
    line("const nvfuser_index_t " + name + " = " +
         (reversed ? "gridDim." + tag.substr(tag.size() - 1) + " - 1 - " : std::string()) + tag +
         ";");
  }
}

size_t KernelPrinter::level() const {
  return scopes_.size() - 1;
}

void KernelPrinter::lineAt(size_t where, const std::string& text) {
  scopes_[where].text += std::string(2 * (where + 1), ' ') + text + "\n";
}

void KernelPrinter::line(const std::string& text) {
  lineAt(level(), text);
}

std::string generateCudaKernel(const Kernel* kernel, const std::string& kernel_name) {
  return KernelPrinter(kernel).print(kernel_name);
}

} // namespace nvfuser::codegen
