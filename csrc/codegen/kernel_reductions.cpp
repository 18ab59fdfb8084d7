// SPDX-License-Identifier: BSD-3-Clause
// Text of reductions and scans over threads, and of barriers.
#include <base/error.h>
#include <codegen/kernel_printer.h>
#include <lower/reductions.h>

namespace nvfuser::codegen {

void KernelPrinter::scanStep(const ScanStep* s) {
  const auto* out = s->output(0)->as<TensorIndex>();
  std::string carry = tensorName(out->view()) + "_carry";
  const auto* index = tryAs<NamedScalar>(s->loopIndex());
  const auto loop = index == nullptr ? loop_level_.end() : loop_level_.find(index->text());
  const size_t where = loop == loop_level_.end() ? level() : loop->second - 1;
  declareCarry(carry, s->init(), out->dtype(), where);
  if (kernel_->thread_loops.exist) {
    carry += "[" + threadNumber() + "]";
  }
  const OpInfo& info = opInfo(s->op());
  const std::string in = convertedScalar(s->in(), out->dtype()).operand();
  line(carry + " = " +
       (info.infix[0] != '\0' ? carry + " " + info.infix + " " + in
                              : "nvf::" + std::string(info.name) + "(" + carry + ", " + in + ")") +
       ";");
  assign(s->output(0), carry);
}

void KernelPrinter::declareCarry(const std::string& name, const Val* init, DataType dtype,
                                 size_t where) {
  const std::string type(kernelTypeName(dtype));
  const std::string value = convertedScalar(init, dtype).text;
  if (!kernel_->thread_loops.exist) {
    return lineAt(where, type + " " + name + " = " + value + ";");
  }
  lineAt(where, "Array<" + type + ", " + std::to_string(kernel_->thread_loops.threads()) + "> " +
                    name + ";");
  lineAt(where, name + ".set(" + value + ");");
}

std::string KernelPrinter::maskArguments(const DimMask& mask) {
  std::string out;
  for (bool b : mask) {
    out += (out.empty() ? "" : ", ") + std::string(b ? "true" : "false");
  }
  return out;
}

std::string KernelPrinter::blockArguments(const DimMask& threads) const {
  std::string out = maskArguments(threads);
  for (const ParallelType type : {ParallelType::TIDx, ParallelType::TIDy, ParallelType::TIDz}) {
    out += ", " + std::to_string(extentArgument(kernel_, type));
  }
  return out;
}

const char* KernelPrinter::combinerName(OpType op) {
  switch (op) {
    case OpType::Add:
      return "nvf::SumOp";
    case OpType::Mul:
      return "nvf::ProdOp";
    case OpType::Minimum:
      return "nvf::MinOp";
    case OpType::Maximum:
      return "nvf::MaxOp";
    default:
      NVF_THROW("no reduction by ", opInfo(op).name);
  }
}

std::string KernelPrinter::termText(const ReduceTerm& term) {
  const std::string count = std::to_string(term.count);
  const std::string type(kernelTypeName(term.buffers.front()->dtype()));
  std::string out;
  if (auto* op = tryAs<ReductionOp>(term.reduction)) {
    out = "nvf::ReduceTerm<" + std::string(combinerName(op->op())) + ", " + type + ", " + count +
          ">{";
  } else {
    const bool is_softmax = term.reduction->kind() == ExprKind::OnlineSoftmaxOp;
    out = (is_softmax ? "nvf::SoftmaxTerm<" : "nvf::WelfordTerm<") + type + ", " + count + ">{";
  }
  const char* separator = "";
  for (const Val* first : term.first) {
    out += separator + address(first->as<TensorIndex>());
    separator = ", ";
  }
  return out + "}";
}

void KernelPrinter::welfordStep(const Expr* e) {
  const TensorView* mean = e->output(0)->as<TensorIndex>()->view();
  const bool is_part = mean->definition()->as<WelfordOp>()->combinesParts();
  const bool is_vector = !is_part && vector_ > 1;
  const bool is_chunk = is_vector && mean->axis(-1)->isReduction();
  const std::string width = "<" + std::to_string(vector_) + ">";
  std::string text = is_part     ? "nvf::welfordCombine("
                     : is_chunk  ? "nvf::welfordChunk" + width + "("
                     : is_vector ? "nvf::welfordSteps" + width + "("
                                 : "nvf::welfordStep(";
  const char* separator = "";
  for (const Val* out : e->outputs()) {
    const auto* to = out->as<TensorIndex>();
    text += separator + (is_vector && !is_chunk ? address(to) : element(to));
    separator = ", ";
  }
  for (const Val* in : e->inputs()) {
    text += separator + (is_vector ? address(in->as<TensorIndex>()) : scalar(in).text);
  }
  line(text + ");");
}

std::string KernelPrinter::workspaceAt(const Val* offset) {
  return offset == nullptr
             ? "nullptr"
             : "smem" + (offset->isZeroInt() ? std::string() : " + " + scalar(offset).operand());
}

void KernelPrinter::threadScan(const ThreadScan* s) {
  const auto* op = s->scan()->as<ScanOp>();
  const std::string carry = tensorName(op->out()) + "_carry";
  if (s->part() == ThreadScan::Part::Begin) {
    return declareCarry(carry, s->init(), op->out()->dtype(), level());
  }
  if (kernel_->thread_loops.exist) {
    const auto* first = s->first->as<TensorIndex>();
    return line("nvf::scanThreads<" + std::string(combinerName(op->op())) + ", " +
                std::to_string(s->threads) + ", " +
                std::to_string(kernel_->thread_loops.threads()) + ", " + std::to_string(s->count) +
                ", " + steps(first->view()) + ">(" + ofFirstThread(first) + ", &" + carry +
                "[0]);");
  }
  line("nvf::blockScan<" + std::string(combinerName(op->op())) + ", " + std::to_string(s->threads) +
       ", " + std::to_string(s->count) + ">(" + workspaceAt(s->workspace) + ", " +
       address(s->first->as<TensorIndex>()) + ", " + carry + ");");
}

std::string KernelPrinter::steps(const TensorView* tv) const {
  const bool by_thread = kernel_->thread_loops.registers.at(tv) == ThreadLoops::Layout::ByThread;
  return by_thread ? "1, " + std::to_string(sizes_.at(tv))
                   : std::to_string(kernel_->thread_loops.threads()) + ", 1";
}

std::string KernelPrinter::ofFirstThread(const TensorIndex* t) {
  const bool by_thread =
      kernel_->thread_loops.registers.at(t->view()) == ThreadLoops::Layout::ByThread;
  const Text index = scalar(t->index());
  return "&" + tensorName(t->view()) + "[" +
         (by_thread || index.text == "0"
              ? index.text
              : index.operand() + " * " + std::to_string(kernel_->thread_loops.threads())) +
         "]";
}

std::string KernelPrinter::termOfThreads(const ReduceTerm& term) {
  const std::string type(kernelTypeName(term.buffers.front()->dtype()));
  const auto* op = tryAs<ReductionOp>(term.reduction);
  const bool is_softmax = term.reduction->kind() == ExprKind::OnlineSoftmaxOp;
  const std::string one = op != nullptr ? "nvf::ReduceTerm<" + std::string(combinerName(op->op())) +
                                              ", " + type + ", 1>"
                          : is_softmax  ? "nvf::SoftmaxTerm<" + type + ", 1>"
                                        : "nvf::WelfordTerm<" + type + ", 1>";
  std::string out = "nvf::TermOfThreads<" + one + ", " + std::to_string(term.count) + ", " +
                    steps(term.buffers.front()) + ">{{";
  const char* separator = "";
  for (const Val* first : term.first) {
    out += separator + ofFirstThread(first->as<TensorIndex>());
    separator = ", ";
  }
  return out + "}}";
}

void KernelPrinter::reduceThreads(const ThreadReduce* r) {
  std::string terms;
  for (const ReduceTerm& t : r->terms) {
    terms += (terms.empty() ? "" : ", ") + termOfThreads(t);
  }
  if (!r->reducesGrid()) {
    return line("nvf::reduceThreads<" + blockArguments(r->threads()) + ">(" + terms + ");");
  }
  line(r->flag + " = nvf::reduceThreadsOfGrid<" + maskArguments(r->grid()) + ", " +
       blockArguments(r->threads()) + ">(blockIdx, gridDim, grid_workspace + " +
       scalar(r->grid_workspace).operand() + ", semaphores + " + scalar(r->semaphores).operand() +
       ", " + terms + ");");
}

void KernelPrinter::combineThreads(const ThreadReduce* r) {
  if (kernel_->thread_loops.exist) {
    return reduceThreads(r);
  }
  std::string terms;
  for (const ReduceTerm& t : r->terms) {
    terms += ", " + termText(t);
  }
  const std::string workspace = workspaceAt(r->workspace);
  if (r->reducesGrid()) {
    return line((r->flag.empty() ? "nvf::gridAllReduce<" : r->flag + " = nvf::gridReduce<") +
                maskArguments(r->grid()) + ", " + blockArguments(r->threads()) +
                ">(grid_workspace + " + scalar(r->grid_workspace).operand() + ", semaphores + " +
                scalar(r->semaphores).operand() + ", " + workspace + terms + ");");
  }
  if (r->reducesCluster()) {
    return clusterReduce(
        r, std::to_string(clusterArgument(kernel_)) + ", " + blockArguments(r->threads()),
        workspace, terms);
  }
  line("nvf::blockReduce<" + blockArguments(r->threads()) + ">(" + workspace + terms + ");");
}

void KernelPrinter::threadReduce(const ThreadReduce* r) {
  combineThreads(r);
  if (r->part == ThreadReduce::Part::Begin) {
    return; // nothing waits for it here
  }
  renewStatistics();
  if (r == last_reduction_) {
    renewElements();
  }
  for (const ReduceTerm& term : r->terms) {
    for (const Val* first : term.first) {
      noteStatistic(first, nullptr);
    }
  }
}

bool KernelPrinter::isStatistic(const Val* v) const {
  const auto* index = tryAs<TensorIndex>(v);
  return index != nullptr && std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& scope) {
           return scope.statistics.has(index->view());
         });
}

void KernelPrinter::noteStatistic(const Val* out, const Expr* e) {
  const auto* index = tryAs<TensorIndex>(out);
  if (kernel_->thread_loops.exist || index == nullptr || single_.count(index->view()) == 0 ||
      index->dtype() != DataType::Float) {
    return;
  }
  if (e == nullptr || std::any_of(e->inputs().begin(), e->inputs().end(),
                                  [&](const Val* in) { return isStatistic(in); })) {
    scopes_.back().statistics.pushBack(index->view());
  }
}

void KernelPrinter::renewStatistics() {
  for (const Scope& scope : scopes_) {
    for (const TensorView* tv : scope.statistics) {
      line("nvf::renew(" + tensorName(tv) + ");");
    }
  }
}

void KernelPrinter::renewElements() {
  for (const Scope& scope : scopes_) {
    for (const TensorView* tv : scope.narrow) {
      line("nvf::renewWords(" + tensorName(tv) + ");");
    }
  }
}

void KernelPrinter::clusterReduce(const ThreadReduce* r, const std::string& arguments,
                                  const std::string& workspace, const std::string& terms) {
  if (r->phase_barrier < 0) {
    return line("nvf::clusterReduce<" + arguments + ">(" + workspace + terms + ");");
  }
  if (r->phase_stride == 0) {
    return line("nvf::clusterReduceByPhase<" + arguments + ">(" + workspace +
                ", cluster_barriers + " + std::to_string(r->phase_barrier) + ", " +
                std::to_string(r->parity) + terms + ");");
  }
  // What has been begun is in the phase before the next one.
  using Part = ThreadReduce::Part;
  const std::string phase = r->part == Part::End ? "(cluster_phase - 1)" : "cluster_phase";
  const std::string place = workspace + " + (" + phase + " % 2) * " +
                            std::to_string(r->phase_stride) + ", cluster_barriers + " + phase +
                            " % 2";
  line((r->part == Part::Begin ? "nvf::beginClusterReduce<"
        : r->part == Part::End ? "nvf::endClusterReduce<"
                               : "nvf::clusterReduceByPhase<") +
       arguments + ">(" + place +
       (r->part == Part::Begin ? std::string() : ", " + phase + " / 2 % 2") + terms + ");");
  if (r->part != Part::End) {
    line("++cluster_phase;");
  }
}

void KernelPrinter::sync(BlockSync::Scope scope) {
  switch (scope) {
    case BlockSync::Scope::Block:
      return line("nvf::syncBlock();");
    case BlockSync::Scope::Cluster:
      return line("nvf::syncCluster();");
    case BlockSync::Scope::ClusterWait:
      return line("nvf::waitForCluster();");
    case BlockSync::Scope::ClusterStart:
      line("nvf::MBarrier* const cluster_barriers = reinterpret_cast<nvf::MBarrier*>(smem + " +
           scalar(kernel_->cluster_barriers).operand() + ");");
      if (kernel_->counts_cluster_phases) {
        line("unsigned cluster_phase = 0;");
      }
      block("if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)", [&] {
        line("nvf::initMBarrier(cluster_barriers, 1);");
        line("nvf::initMBarrier(cluster_barriers + 1, 1);");
        line("nvf::fenceMBarrierInit();");
      });
      return line("nvf::arriveAtCluster();");
  }
}

void KernelPrinter::declareFlags(const std::vector<Expr*>& statements) {
  for (const Expr* e : statements) {
    if (const auto* loop = tryAs<ForLoop>(e)) {
      declareFlags(loop->body());
    } else if (const auto* branch = tryAs<IfThenElse>(e)) {
      declareFlags(branch->elseBody());
    } else if (const auto* r = tryAs<ThreadReduce>(e); r != nullptr && !r->flag.empty()) {
      line("bool " + r->flag + " = false;");
    }
  }
}

} // namespace nvfuser::codegen
