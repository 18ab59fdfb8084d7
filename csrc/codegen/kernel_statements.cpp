// SPDX-License-Identifier: BSD-3-Clause
// Text of statements: loops, branches, allocations, copies, random numbers.
#include <base/error.h>
#include <codegen/kernel_printer.h>
#include <ir/evaluator.h>
#include <ir/visitor.h>
#include <kernel/accesses.h>
#include <lower/reductions.h>

#include <algorithm>
#include <numeric>

namespace nvfuser::codegen {

namespace {

// 16-bit elements of a thread from which on the compiler may be kept from keeping them as floats
// beside them: kernels that convert them again were faster (docs/measurements/normalizations.md,
// Rows in registers).
constexpr int64_t kManyKept = 32;

} // namespace

void KernelPrinter::waitIfNeeded(const Expr* e) {
  const auto* loop = tryAs<ForLoop>(e);
  if (must_wait_ && !(loop != nullptr && loop->isTrivial()) && !mayRunEarly(e)) {
    line("nvf::waitForPreviousKernel();");
    must_wait_ = false;
    letNextStart();
  }
}

// Not before this kernel has waited: the next one finds no kernel under way but this one, and no
// lines of memory in its L1 cache that another one read meanwhile and this one wrote after that.
void KernelPrinter::letNextStart() {
  if (kernel_->order.lets_next_start) {
    line("nvf::letNextKernelStart();");
  }
}

bool KernelPrinter::mayRunEarly(const Expr* e) const {
  auto all = [&](const std::vector<Expr*>& list) {
    return std::all_of(list.begin(), list.end(), [&](const Expr* x) { return mayRunEarly(x); });
  };
  if (const auto* loop = tryAs<ForLoop>(e)) {
    return all(loop->body());
  }
  if (const auto* branch = tryAs<IfThenElse>(e)) {
    return all(branch->thenBody()) && all(branch->elseBody());
  }
  if (e->kind() == ExprKind::Allocate) {
    return true;
  }
  if (!isElementOp(e)) {
    return false;
  }
  const auto* to = tryAs<TensorIndex>(e->output(0));
  return (to == nullptr || to->view()->getMemoryType() == MemoryType::Local) &&
         std::all_of(e->inputs().begin(), e->inputs().end(), [&](const Val* in) {
           const auto* from = tryAs<TensorIndex>(in);
           return from == nullptr || from->view()->getMemoryType() == MemoryType::Local ||
                  isEarlyInput(from->view());
         });
}

bool KernelPrinter::isEarlyInput(const TensorView* tv) const {
  const auto& inputs = kernel_->inputs();
  const auto at =
      static_cast<uint64_t>(std::find(inputs.begin(), inputs.end(), tv) - inputs.begin());
  return at < std::min<uint64_t>(inputs.size(), 64) && (kernel_->order.early_inputs >> at & 1) != 0;
}

void KernelPrinter::statement(const Expr* e) {
  waitIfNeeded(e);
  is_value_ = computesElements(e);
  switch (e->kind()) {
    case ExprKind::ForLoop:
      return loop(static_cast<const ForLoop*>(e));
    case ExprKind::IfThenElse:
      return branch(static_cast<const IfThenElse*>(e));
    case ExprKind::Allocate:
      return allocate(static_cast<const Allocate*>(e));
    case ExprKind::BlockSync:
      return sync(static_cast<const BlockSync*>(e)->scope());
    case ExprKind::BufferCopy: {
      const auto* copy = static_cast<const BufferCopy*>(e);
      declare(copy->to());
      return line(tensorName(copy->to()) + " = " + tensorName(copy->from()) + ";");
    }
    case ExprKind::WaitForLoads:
      return line("nvf::waitForLoads(" +
                  tensorName(static_cast<const WaitForLoads*>(e)->registers()) + ");");
    case ExprKind::ThreadLoop:
      return threadLoop(static_cast<const ThreadLoop*>(e));
    case ExprKind::BulkCopy:
      return bulkCopy(static_cast<const BulkCopy*>(e));
    case ExprKind::LinearBulkCopy:
      return linearBulkCopy(static_cast<const LinearBulkCopy*>(e));
    case ExprKind::CopyStep:
      return copyStep(static_cast<const CopyStep*>(e));
    case ExprKind::WelfordStep:
      return welfordStep(e);
    case ExprKind::SoftmaxStep:
      return line("nvf::softmaxStep<" + std::to_string(vector_) + ">(" +
                  element(e->output(0)->as<TensorIndex>()) + ", " +
                  element(e->output(1)->as<TensorIndex>()) + ", " +
                  address(e->input(0)->as<TensorIndex>()) + ");");
    case ExprKind::ThreadReduce:
      return threadReduce(static_cast<const ThreadReduce*>(e));
    case ExprKind::ThreadScan:
      return threadScan(static_cast<const ThreadScan*>(e));
    case ExprKind::RandomNumber:
      return randomNumber(static_cast<const RandomNumber*>(e));
    case ExprKind::ScanStep:
      return scanStep(static_cast<const ScanStep*>(e));
    case ExprKind::LoadStoreOp:
      copy(static_cast<const LoadStoreOp*>(e));
      return noteStatistic(e->output(0), e);
    case ExprKind::ElementwiseOp:
      assign(e->output(0), elementwise(static_cast<const ElementwiseOp*>(e)).text);
      return noteStatistic(e->output(0), e);
    default:
      NVF_THROW("no text for ", e->opName());
  }
}

void KernelPrinter::loop(const ForLoop* l) {
  if (l->isTrivial()) {
    const int saved = vector_;
    if (isParallelTypeVectorize(l->parallelType()) && !l->extent()->isOneInt()) {
      vector_ = static_cast<int>(l->extent()->intValue());
    }
    for (const Expr* e : l->body()) {
      statement(e);
    }
    vector_ = saved;
    return;
  }
  const std::string index = l->index()->as<NamedScalar>()->text();
  const std::string extent = scalar(l->extent()).operand();
  const std::string first = l->first() == nullptr ? "0" : scalar(l->first()).text;
  loop_level_[index] = scopes_.size();
  block(
      "for (nvfuser_index_t " + index + " = " + first + "; " + index + " < " + extent + "; ++" +
          index + ")",
      [&] {
        for (const Expr* e : l->body()) {
          statement(e);
        }
      },
      "}", l->isUnrolled() && !kernel_->thread_loops.exist ? "#pragma unroll" : "");
}

void KernelPrinter::threadLoop(const ThreadLoop* l) {
  if (l->transposed.to != nullptr) {
    return transposedCopy(l->transposed);
  }
  for (const TensorIndex* first : l->fetched_ahead) {
    line("nvf::fetchAhead(" + address(first) + ", " +
         std::to_string(kernel_->thread_loops.extents[0]) + ");");
  }
  l->streamed.empty() ? overThreads(l) : streamedLoop(l);
}

void KernelPrinter::overThreads(const ThreadLoop* l, int axis) {
  if (axis < 0) {
    in_thread_loop_ = true;
    for (const Expr* e : l->body()) {
      statement(e);
    }
    in_thread_loop_ = false;
    return;
  }
  const auto at = static_cast<size_t>(axis);
  const int64_t extent = kernel_->thread_loops.extents[at];
  if (extent == 1) {
    return overThreads(l, axis - 1);
  }
  const std::string name = threadIndex(axis);
  const Val* limit = l->limits()[at];
  const std::string end = limit == nullptr ? std::to_string(extent) : named(limit);
  if (axis == 0 && l->pieces.first != nullptr) {
    return threadPieces(l, name, end);
  }
  threadsFrom("0", end, name, l, axis);
}

void KernelPrinter::threadsFrom(const std::string& first, const std::string& end,
                                const std::string& name, const ThreadLoop* l, int axis) {
  loop_level_[name] = scopes_.size();
  block(
      "for (nvfuser_index_t " + name + " = " + first + "; " + name + " < " + end + "; ++" + name +
          ")",
      [&] { overThreads(l, axis - 1); }, "}", axis == 0 ? "#pragma GCC ivdep" : "");
}

void KernelPrinter::threadPieces(const ThreadLoop* l, const std::string& name,
                                 const std::string& end) {
  const std::string& first = l->pieces.first->text();
  loop_level_[first] = scopes_.size();
  block("for (nvfuser_index_t " + first + " = 0; " + first + " < " + end + ";)", [&] {
    std::string length = end + " - " + first;
    for (const Val* most : l->pieces.lengths) {
      length = "nvf::minimum(" + length + ", " + scalar(most).text + ")";
    }
    const std::string piece_end = first + "_end";
    line("const nvfuser_index_t " + piece_end + " = " + first + " + " + length + ";");
    // Indices that might wrap would not be those of neighbours.
    line("if (" + first + " < 0 || " + piece_end + " > " +
         std::to_string(kernel_->thread_loops.extents[0]) + ") __builtin_unreachable();");
    in_piece_ = &l->pieces.values;
    threadsFrom(first, piece_end, name, l, 0);
    in_piece_ = nullptr;
    line(first + " = " + piece_end + ";");
  });
}

void KernelPrinter::transposedCopy(const ThreadLoop::Transposed& c) {
  line("nvf::copyTransposed(" + address(c.to) + ", " + scalar(c.to_stride).text + ", " +
       address(c.from) + ", " + scalar(c.from_stride).text + ", " + scalar(c.rows).text + ", " +
       scalar(c.columns).text + ");");
}

// What is written lies on the stack until all threads have theirs.
void KernelPrinter::streamedLoop(const ThreadLoop* l) {
  const std::string extent = std::to_string(kernel_->thread_loops.extents[0]);
  block("", [&] {
    for (const TensorIndex* first : l->streamed) {
      streamed_.insert(first->view());
      line("alignas(64) " + std::string(kernelTypeName(first->dtype())) + " " +
           tensorName(first->view()) + "_out[" + extent + "];");
    }
    overThreads(l);
    streamed_.clear();
    for (const TensorIndex* first : l->streamed) {
      const Val* limit = l->limits()[0];
      line("nvf::streamOut(" + address(first) + ", " + tensorName(first->view()) + "_out, " +
           (limit == nullptr ? extent : named(limit)) + ");");
    }
  });
}

std::string KernelPrinter::threadIndex(int axis) {
  return std::string("t") + "xyz"[axis];
}

std::string KernelPrinter::threadNumber() const {
  if (!in_thread_loop_) {
    return "0";
  }
  std::string text;
  for (int axis = 2; axis >= 0; --axis) {
    const int64_t extent = kernel_->thread_loops.extents[static_cast<size_t>(axis)];
    if (extent > 1) {
      text = text.empty() ? threadIndex(axis)
                          : (text.find(' ') == std::string::npos ? text : "(" + text + ")") +
                                " * " + std::to_string(extent) + " + " + threadIndex(axis);
    }
  }
  return text.empty() ? "0" : text;
}

void KernelPrinter::branch(const IfThenElse* b) {
  const std::string condition = scalar(b->condition()).text;
  // Both bodies first: they may hoist lines to this place.
  const std::string then_text = blockText(b->thenBody());
  const std::string else_text = blockText(b->elseBody());
  line("if (" + condition + ") {");
  scopes_.back().text += then_text;
  if (!b->elseBody().empty()) {
    line("} else {");
    scopes_.back().text += else_text;
  }
  line("}");
}

std::string KernelPrinter::blockText(const std::vector<Expr*>& statements) {
  scopes_.emplace_back();
  for (const Expr* e : statements) {
    statement(e);
  }
  std::string text = std::move(scopes_.back().text);
  scopes_.pop_back();
  return text;
}

void KernelPrinter::allocate(const Allocate* a) {
  const std::string type(kernelTypeName(a->tv()->dtype()));
  const std::string name = tensorName(a->tv());
  if (a->memoryType() == MemoryType::Shared) {
    const Text offset = scalar(a->sharedOffset());
    line(type + "* const " + name + " = reinterpret_cast<" + type + "*>(smem" +
         (offset.text == "0" ? std::string() : " + " + offset.operand()) + ");");
    return;
  }
  int64_t size = a->size()->intValue();
  if (kernel_->thread_loops.registers.count(a->tv()) != 0) {
    constexpr int64_t kVectorElements = 16;
    sizes_[a->tv()] = size;
    size *= kernel_->thread_loops.threads();
    const std::string array = "Array<" + type + ", " + std::to_string(size) + ", " +
                              std::to_string(std::gcd(size, kVectorElements)) + "> " + name;
    if (kernel_->thread_loops.apart.count(a->tv()) == 0) {
      return line(array + ";");
    }
    line(array + "_room;");
    return line(type + "* const " + name + " = nvf::apart(" + name + "_room);");
  }
  if (size == 1) {
    single_.insert(a->tv());
    undeclared_[a->tv()] = {level(), a->isZeroed()};
    return;
  }
  if (size >= kManyKept) {
    long_arrays_[a->tv()] = level();
  }
  line("Array<" + type + ", " + std::to_string(size) +
       (a->alignment() > 1 ? ", " + std::to_string(std::min<int64_t>(a->alignment(), size)) : "") +
       "> " + name + (a->isZeroed() ? " = {};" : ";"));
}

void KernelPrinter::copy(const LoadStoreOp* op) {
  const auto* out = op->out()->as<TensorIndex>();
  const auto* in = tryAs<TensorIndex>(op->in());
  const int64_t bytes = vector_ * dataTypeSizeBits(out->dtype()) / 8;
  if (op->type() == LoadStoreOpType::CpAsync) {
    const std::string to = address(out);
    const std::string from = address(in);
    const char* cached = op->cacheOp() == CacheOp::AllLevels ? ", nvf::CacheOp::AllLevels" : "";
    return line("nvf::copyAsync<" + std::to_string(bytes) + cached + ">(" + to + ", " + from +
                ");");
  }
  if (vector_ > 1 && in == nullptr) {
    return line("nvf::fillVector<" + std::to_string(vector_) + ">(" + address(out) + ", " +
                convertedScalar(op->in(), out->dtype()).text + ");");
  }
  if (vector_ > 1) {
    return vectorCopy(op, out, in);
  }
  if (wide_.holds(out->view())) {
    return assign(out, asFloat(op->in(), out->dtype()).text);
  }
  assign(out, in == nullptr ? convertedScalar(op->in(), out->dtype()).text : access(in));
}

std::string KernelPrinter::vectorFunction(const std::string& name, const TensorIndex* out) const {
  return "nvf::" + name + "<" + std::string(kernelTypeName(out->dtype())) + ", " +
         std::to_string(vector_) + ">(";
}

std::string KernelPrinter::unalignedSource(const TensorIndex* out, const TensorIndex* in) {
  return tensorName(in->view()) + ".data, " + elementIndex(in) + ", " +
         scalar(kernel_->unaligned_loads.at(out->view())).operand();
}

void KernelPrinter::vectorCopy(const LoadStoreOp* op, const TensorIndex* out,
                               const TensorIndex* in) {
  const bool from_global = in->view()->getMemoryType() == MemoryType::Global;
  const bool to_global = out->view()->getMemoryType() == MemoryType::Global;
  const std::string n = std::to_string(vector_);
  if (kernel_->unaligned_loads.count(out->view()) != 0) {
    const bool is_end = out->view()->getMemoryType() == MemoryType::Shared;
    const auto whole = kernel_->whole_vectors.find(out->view());
    const bool is_sure = whole != kernel_->whole_vectors.end() && whole->second != nullptr;
    return line(vectorFunction(is_end ? "copyEnd" : "loadUnaligned", out) + address(out) + ", " +
                unalignedSource(out, in) + (is_sure ? ", " + scalar(whole->second).text : "") +
                ");");
  }
  if (const auto it = kernel_->shifted_loads.find(out->view());
      it != kernel_->shifted_loads.end()) {
    return line(vectorFunction("loadShifted", out) + address(out) + ", " + address(in) + ", " +
                scalar(it->second).operand() + ");");
  }
  NVF_ERROR(kernel_->unaligned_loads.count(in->view()) == 0, in->view()->toString(),
            " holds vectors that begin elsewhere");
  if (isFloat4(out->dtype()) && (from_global || to_global)) {
    NVF_ERROR(from_global != to_global, "a vector copy goes through registers");
    return line(from_global ? "nvf::loadFp4<" + n + ">(" + address(out) + ", " +
                                  tensorName(in->view()) + ".data, " + elementIndex(in) + ");"
                            : "nvf::storeFp4<" + n + ">(" + tensorName(out->view()) + ".data, " +
                                  elementIndex(out) + ", " + address(in) + ");");
  }
  const char* function = from_global ? "nvf::loadGlobal<"
                         : to_global ? "nvf::storeGlobal<"
                                     : "nvf::copyVector<";
  std::string types = std::string(kernelTypeName(out->dtype())) + ", " + n;
  if ((from_global || to_global) && op->cacheOp() != CacheOp::Unspecified) {
    types += op->cacheOp() == CacheOp::Streaming   ? ", nvf::CacheOp::Streaming"
             : op->cacheOp() == CacheOp::AllLevels ? ", nvf::CacheOp::AllLevels"
             : op->cacheOp() == CacheOp::EvictLast ? ", nvf::CacheOp::EvictLast"
                                                   : ", nvf::CacheOp::Global";
  }
  line(function + types + ">(" + address(out) + ", " + address(in) + ");");
}

bool KernelPrinter::isConstant(const Val* v, double number) {
  if (!v->isConst()) {
    return false;
  }
  const auto value = convertScalar(v->value(), DataType::Double);
  const auto* d = std::get_if<double>(&value);
  return d != nullptr && *d == number;
}

void KernelPrinter::randomNumber(const RandomNumber* r) {
  const auto* out = r->output(0)->as<TensorIndex>();
  const bool is_uniform = r->rng() == RngKind::Uniform;
  const bool is_unit = is_uniform && isConstant(r->input(0), 0.0) && isConstant(r->input(1), 1.0);
  std::string call = is_unit ? "nvf::uniformUnit<" : is_uniform ? "nvf::uniform<" : "nvf::normal<";
  call += std::string(kernelTypeName(out->dtype())) + ">(nvf::philox(" + scalar(r->seed()).text +
          ", " + named(r->block()) + ", " + scalar(r->offset()).text + "), static_cast<int>(" +
          scalar(r->lane()).text + ")";
  if (!is_unit) {
    call += ", " + scalar(r->input(0)).text + ", " + scalar(r->input(1)).text;
  }
  assign(r->output(0), call + ")");
}

void KernelPrinter::assign(const Val* out, const std::string& value) {
  const auto* index = out->as<TensorIndex>();
  const TensorView* tv = index->view();
  if (isFloat4(tv->dtype()) && tv->getMemoryType() == MemoryType::Global) {
    const std::string temporary = tensorName(tv) + "_value";
    return block("", [&] {
      line("const __e2m1 " + temporary + " = " + value + ";");
      line("nvf::storeFp4<1>(" + tensorName(tv) + ".data, " + elementIndex(index) + ", &" +
           temporary + ");");
    });
  }
  std::string target = tv->getMemoryType() == MemoryType::Shared
                           ? "nvf::sharedWrite(" + element(index) + ")"
                           : element(index);
  // A register is declared where it is first assigned; in front of the block if that is a branch
  // of it.
  if (auto it = undeclared_.find(tv); it != undeclared_.end()) {
    if (it->second.level == level()) {
      target = registerType(tv) + " " + target;
      undeclared_.erase(it);
    } else {
      declare(tv);
    }
  }
  line(target + " = " + value + ";");
}

} // namespace nvfuser::codegen
