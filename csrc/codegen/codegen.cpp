// Kernel IR -> text. One expression, one statement; what does not depend on an inner loop is
// computed outside of it under a name; loops over thread and block dimensions and loops of one
// iteration print nothing.
//
// The text depends on the kernel alone: it is the key of the kernel cache.
#include <codegen/codegen.h>

#include <base/error.h>
#include <codegen/approximate.h>
#include <codegen/deviations.h>
#include <codegen/literal.h>
#include <ir/evaluator.h>
#include <lower/reductions.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

namespace nvfuser::codegen {

namespace {

// Text of an expression, how it binds, and the innermost scope that its variables belong to.
struct Text {
  std::string text;
  size_t level = 0;
  bool compound = false;

  std::string operand() const {
    return compound ? "(" + text + ")" : text;
  }
};

// A block of the kernel text. Named values are declared in the block of their innermost variable.
struct Scope {
  std::string text;
  std::unordered_map<std::string, std::string> named;
};

bool isIndexType(DataType t) {
  return t == DataType::Index || t == DataType::Int || t == DataType::Int32;
}

// Extents, of the loops around that run, and constants; scalars of the user may be 0.
bool isNonzeroDivisor(const Val* v) {
  return v->isConstInt() ? std::get<int64_t>(v->value()) != 0 : v->dtype() == DataType::Index;
}

class KernelPrinter {
 public:
  explicit KernelPrinter(const Kernel* kernel)
      : kernel_(kernel),
        approximate_(approximableOps(kernel)),
        deviations_(deviationsOfProducts(kernel)) {
    nameExtents();
  }

  std::string print(const std::string& name) {
    scopes_.emplace_back();
    if (kernel_->shared_bytes != nullptr) {
      line("NVF_DYNAMIC_SHARED(smem);");
    }
    nameThreadIndices();
    if (kernel_->order.lets_next_start) {
      line("nvf::letNextKernelStart();");
    }
    must_wait_ = kernel_->order.waits_for_previous;
    declareFlags(kernel_->top_level);
    for (const Expr* e : kernel_->top_level) {
      statement(e);
    }
    NVF_ERROR(!must_wait_, "a kernel that writes nothing");
    const std::string settings = kernel_->thread_loops.exist ? "#define NVF_THREADS_IN_LOOPS\n"
                                 : kernel_->load_warps.exist()
                                     ? "#define NVF_COMPUTING_THREADS " +
                                           std::to_string(kernel_->load_warps.compute_threads) +
                                           "\n"
                                     : "";
    return settings + "NVF_KERNEL(" + name + ", " + std::to_string(maxThreads()) + ", (" +
           parameters() + ")) {\n" + scopes_.back().text + "}\n";
  }

 private:
  // --- signature ---

  // Those of the schedule in a block, if that is a constant.
  std::optional<int64_t> numThreads() const {
    const bool is_constant = std::all_of(
        kernel_->parallel_extents.begin(), kernel_->parallel_extents.end(), [](const auto& bound) {
          return !isParallelTypeThreadDim(bound.first) || bound.second->isConstInt();
        });
    return is_constant ? std::optional<int64_t>(maxBlockThreads(kernel_)) : std::nullopt;
  }

  int64_t maxThreads() const {
    constexpr int64_t kMostThreads = 1024;
    const int64_t threads = maxBlockThreads(kernel_) + kernel_->load_warps.load_threads;
    return std::clamp<int64_t>(threads, 1, kMostThreads);
  }

  std::string parameters() const {
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

  // A symbolic extent is read from the first parameter that has it.
  void nameExtents() {
    for (const KernelParam& p : kernel_->params) {
      if (p.kind != KernelParam::Kind::Tensor) {
        names_.try_emplace(p.val, p.name);
        continue;
      }
      const auto ids =
          TensorDomain::noReductions(static_cast<TensorView*>(p.val)->getLogicalDomain());
      for (size_t i = 0; i < ids.size(); ++i) {
        const Val* extent = ids[i]->getMaybeExpandedExtent();
        if (!extent->isConst() && extent->definition() == nullptr) {
          names_.try_emplace(extent, p.name + ".logical_size[" + std::to_string(i) + "]");
        }
      }
    }
  }

  // threadIdx and blockIdx are unsigned on CUDA; index arithmetic is signed (x - 5 must be able to
  // be negative).
  void nameThreadIndices() {
    for (const auto& [type, extent] : kernel_->parallel_extents) {
      if (extent->isOneInt()) {
        continue;
      }
      const std::string tag(parallelTag(type)); // "threadIdx.x"
      const std::string name =
          (isParallelTypeThreadDim(type) ? "t" : "b") + tag.substr(tag.size() - 1);
      thread_names_[tag] = name;
      if (kernel_->thread_loops.exist && isParallelTypeThreadDim(type)) {
        continue; // a loop's, see threadLoop()
      }
      const bool reversed = kernel_->order.reverses_blocks && isParallelTypeBlockDim(type);
      line("const nvfuser_index_t " + name + " = " +
           (reversed ? "gridDim." + tag.substr(tag.size() - 1) + " - 1 - " : std::string()) + tag +
           ";");
    }
  }

  // --- blocks ---

  size_t level() const {
    return scopes_.size() - 1;
  }

  void lineAt(size_t where, const std::string& text) {
    scopes_[where].text += std::string(2 * (where + 1), ' ') + text + "\n";
  }

  void line(const std::string& text) {
    lineAt(level(), text);
  }

  template <class Body>
  void block(const std::string& head, Body body, const std::string& tail = "}",
             const std::string& before = "") {
    scopes_.emplace_back();
    body();
    std::string text = std::move(scopes_.back().text);
    scopes_.pop_back();
    // Only now: the body may have hoisted lines to this place.
    if (!before.empty()) {
      line(before);
    }
    line(head + " {");
    scopes_.back().text += text;
    line(tail);
  }

  // --- statements ---

  // Loads of what is there already need not wait for the previous kernel. Every thread waits: no
  // branch is around it.
  void waitIfNeeded(const Expr* e) {
    const auto* loop = dynamic_cast<const ForLoop*>(e);
    if (must_wait_ && !(loop != nullptr && loop->isTrivial()) && !mayRunEarly(e)) {
      line("nvf::waitForPreviousKernel();");
      must_wait_ = false;
    }
  }

  bool mayRunEarly(const Expr* e) const {
    auto all = [&](const std::vector<Expr*>& list) {
      return std::all_of(list.begin(), list.end(), [&](const Expr* x) { return mayRunEarly(x); });
    };
    if (const auto* loop = dynamic_cast<const ForLoop*>(e)) {
      return all(loop->body());
    }
    if (const auto* branch = dynamic_cast<const IfThenElse*>(e)) {
      return all(branch->thenBody()) && all(branch->elseBody());
    }
    if (e->kind() == ExprKind::Allocate) {
      return true;
    }
    if (e->kind() != ExprKind::LoadStoreOp && e->kind() != ExprKind::ElementwiseOp) {
      return false;
    }
    const auto* to = dynamic_cast<const TensorIndex*>(e->output(0));
    return (to == nullptr || to->view()->getMemoryType() == MemoryType::Local) &&
           std::all_of(e->inputs().begin(), e->inputs().end(), [&](const Val* in) {
             const auto* from = dynamic_cast<const TensorIndex*>(in);
             return from == nullptr || from->view()->getMemoryType() == MemoryType::Local ||
                    isEarlyInput(from->view());
           });
  }

  bool isEarlyInput(const TensorView* tv) const {
    const auto& inputs = kernel_->inputs();
    const auto at =
        static_cast<uint64_t>(std::find(inputs.begin(), inputs.end(), tv) - inputs.begin());
    return at < std::min<uint64_t>(inputs.size(), 64) &&
           (kernel_->order.early_inputs >> at & 1) != 0;
  }

  void statement(const Expr* e) {
    waitIfNeeded(e);
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
      case ExprKind::SpanCopy:
        return spanCopy(static_cast<const SpanCopy*>(e));
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
        return copy(static_cast<const LoadStoreOp*>(e));
      case ExprKind::ElementwiseOp:
        return assign(e->output(0), elementwise(static_cast<const ElementwiseOp*>(e)).text);
      default:
        NVF_THROW("no text for ", e->opName());
    }
  }

  void loop(const ForLoop* l) {
    if (l->isTrivial()) {
      const int saved = vector_;
      if (isParallelTypeVectorize(l->parallelType()) && !l->extent()->isOneInt()) {
        vector_ = static_cast<int>(std::get<int64_t>(l->extent()->value()));
      }
      for (const Expr* e : l->body()) {
        statement(e);
      }
      vector_ = saved;
      return;
    }
    const std::string index = l->index()->as<NamedScalar>()->text();
    const std::string extent = scalar(l->extent()).operand();
    loop_level_[index] = scopes_.size();
    block(
        "for (nvfuser_index_t " + index + " = 0; " + index + " < " + extent + "; ++" + index + ")",
        [&] {
          for (const Expr* e : l->body()) {
            statement(e);
          }
        },
        "}", l->isUnrolled() && !kernel_->thread_loops.exist ? "#pragma unroll" : "");
  }

  // for z, for y, for x. The threads of a block do not depend on each other between barriers.
  void threadLoop(const ThreadLoop* l, int axis = 2) {
    if (l->transposed.to != nullptr) {
      return transposedCopy(l->transposed);
    }
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
      return threadLoop(l, axis - 1);
    }
    const std::string name = threadIndex(axis);
    const Val* limit = l->limits()[at];
    const std::string end = limit == nullptr ? std::to_string(extent) : named(limit);
    if (axis == 0 && l->pieces.first != nullptr) {
      return threadPieces(l, name, end);
    }
    threadsFrom("0", end, name, l, axis);
  }

  void threadsFrom(const std::string& first, const std::string& end, const std::string& name,
                   const ThreadLoop* l, int axis) {
    loop_level_[name] = scopes_.size();
    block(
        "for (nvfuser_index_t " + name + " = " + first + "; " + name + " < " + end + "; ++" + name +
            ")",
        [&] { threadLoop(l, axis - 1); }, "}", axis == 0 ? "#pragma GCC ivdep" : "");
  }

  void threadPieces(const ThreadLoop* l, const std::string& name, const std::string& end) {
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

  void transposedCopy(const ThreadLoop::Transposed& c) {
    line("nvf::copyTransposed(" + address(c.to) + ", " + scalar(c.to_stride).text + ", " +
         address(c.from) + ", " + scalar(c.from_stride).text + ", " + scalar(c.rows).text + ", " +
         scalar(c.columns).text + ");");
  }

  static std::string threadIndex(int axis) {
    return std::string("t") + "xyz"[axis];
  }

  // The number of the thread in its block. Outside of loops over threads, what the first one has
  // stands for all.
  std::string threadNumber() const {
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

  void branch(const IfThenElse* b) {
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

  std::string blockText(const std::vector<Expr*>& statements) {
    scopes_.emplace_back();
    for (const Expr* e : statements) {
      statement(e);
    }
    std::string text = std::move(scopes_.back().text);
    scopes_.pop_back();
    return text;
  }

  void allocate(const Allocate* a) {
    const std::string type(kernelTypeName(a->tv()->dtype()));
    const std::string name = tensorName(a->tv());
    if (a->memoryType() == MemoryType::Shared) {
      const Text offset = scalar(a->sharedOffset());
      line(type + "* const " + name + " = reinterpret_cast<" + type + "*>(smem" +
           (offset.text == "0" ? std::string() : " + " + offset.operand()) + ");");
      return;
    }
    int64_t size = std::get<int64_t>(a->size()->value());
    if (kernel_->thread_loops.registers.count(a->tv()) != 0) {
      constexpr int64_t kVectorElements = 16;
      sizes_[a->tv()] = size;
      size *= kernel_->thread_loops.threads();
      return line("Array<" + type + ", " + std::to_string(size) + ", " +
                  std::to_string(std::gcd(size, kVectorElements)) + "> " + name + ";");
    }
    if (size == 1) {
      single_.insert(a->tv());
      undeclared_[a->tv()] = level();
      return;
    }
    line(
        "Array<" + type + ", " + std::to_string(size) +
        (a->alignment() > 1 ? ", " + std::to_string(std::min<int64_t>(a->alignment(), size)) : "") +
        "> " + name + ";");
  }

  void copy(const LoadStoreOp* op) {
    const auto* out = op->out()->as<TensorIndex>();
    const auto* in = dynamic_cast<const TensorIndex*>(op->in());
    const int64_t bytes = vector_ * dataTypeSizeBits(out->dtype()) / 8;
    if (op->type() == LoadStoreOpType::CpAsync &&
        kernel_->unaligned_loads.count(out->view()) != 0) {
      return line(vectorFunction("copyUnaligned", out) + tensorName(out->view()) + ", " +
                  elementIndex(out) + ", " + unalignedSource(out, in) + ", " + mayBeFirst(out) +
                  ");");
    }
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
    if (in == nullptr) {
      return assign(op->out(), convertedScalar(op->in(), out->dtype()).text);
    }
    assign(op->out(), access(in));
  }

  std::string vectorFunction(const std::string& name, const TensorIndex* out) const {
    return "nvf::" + name + "<" + std::string(kernelTypeName(out->dtype())) + ", " +
           std::to_string(vector_) + ">(";
  }

  // Whether slot 0 may be meant. It is that of the first iteration of all loops: of unrolled loops
  // over vectors whose distance only the launch knows the compiler would not see that the others
  // are elsewhere.
  std::string mayBeFirst(const TensorIndex* slot) const {
    std::set<std::string> indices;
    std::vector<const Val*> left = {slot->index()};
    while (!left.empty()) {
      const Val* v = left.back();
      left.pop_back();
      if (const auto* index = dynamic_cast<const NamedScalar*>(v);
          index != nullptr && loop_level_.count(index->text()) != 0) {
        indices.insert(index->text());
      } else if (v->definition() != nullptr) {
        left.insert(left.end(), v->definition()->inputs().begin(), v->definition()->inputs().end());
      }
    }
    std::string text;
    for (const std::string& index : indices) {
      text += (text.empty() ? "" : " && ") + index + " == 0";
    }
    return text.empty() ? "true" : text;
  }

  // A tensor of one dimension, where in it the vector begins, and its extent.
  std::string unalignedSource(const TensorIndex* out, const TensorIndex* in) {
    return tensorName(in->view()) + ".data, " + elementIndex(in) + ", " +
           scalar(kernel_->unaligned_loads.at(out->view())).operand();
  }

  void vectorCopy(const LoadStoreOp* op, const TensorIndex* out, const TensorIndex* in) {
    const bool from_global = in->view()->getMemoryType() == MemoryType::Global;
    const bool to_global = out->view()->getMemoryType() == MemoryType::Global;
    const std::string n = std::to_string(vector_);
    if (kernel_->unaligned_loads.count(out->view()) != 0) {
      return line(vectorFunction("loadUnaligned", out) + address(out) + ", " +
                  unalignedSource(out, in) + ");");
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

  // --- asynchronous copies ---

  void bulkCopy(const BulkCopy* copy) {
    std::string at;
    for (const Val* v : copy->at()) {
      const std::string text = scalar(v).text;
      at += (at.empty() ? "" : ", ") + (v->isConst() ? text : "static_cast<int>(" + text + ")");
    }
    const std::string map = "&map" + std::to_string(copy->map());
    const std::string shared = address(copy->shared());
    if (!copy->isLoad()) {
      return line("nvf::copyTileToGlobal(" + map + ", {" + at + "}, " + shared + ");");
    }
    line("nvf::copyTileToShared(" + shared + ", " + map + ", {" + at + "}, " +
         full(copy->buffer(), copy->stage()) + ");");
  }

  void spanCopy(const SpanCopy* copy) {
    const std::string places = address(copy->to()) + ", " + address(copy->from()) + ", ";
    const std::string bytes = scalar(copy->bytes()).text;
    if (!copy->isLoad()) {
      return line("nvf::copyBulkToGlobal(" + places + bytes + ");");
    }
    const bool announces =
        kernel_->async_buffers[static_cast<size_t>(copy->buffer())].counts_by_copy;
    line((announces ? "nvf::announceBulkToShared(" : "nvf::copyBulkToShared(") + places + bytes +
         ", " + full(copy->buffer(), copy->stage()) + ");");
  }

  static std::string barriersName(int buffer) {
    return "ring" + std::to_string(buffer);
  }

  // The mbarrier that says that a slot is full.
  std::string full(int buffer, const Val* stage) {
    return barriersName(buffer) + (stage->isZeroInt() ? "" : " + " + scalar(stage).operand());
  }

  // The one that says that it is empty.
  std::string empty(int buffer, const Val* stage) {
    const int64_t stages = kernel_->async_buffers[static_cast<size_t>(buffer)].stages;
    return barriersName(buffer) + " + " + std::to_string(stages) +
           (stage->isZeroInt() ? "" : " + " + scalar(stage).operand());
  }

  void copyStep(const CopyStep* s) {
    using Part = CopyStep::Part;
    switch (s->part()) {
      case Part::Init:
        return initBarriers();
      case Part::WaitUntilEmpty:
        return line("nvf::waitForPhase(" + empty(s->buffer(), s->stage()) + ", " +
                    scalar(s->parity()).text + ");");
      case Part::Expect:
        return line("nvf::arriveExpecting(" + full(s->buffer(), s->stage()) + ", " +
                    scalar(kernel_->async_buffers[static_cast<size_t>(s->buffer())].bytes).text +
                    ");");
      case Part::Announced:
        return line("nvf::arrive(" + full(s->buffer(), s->stage()) + ");");
      case Part::WaitUntilFull:
        return line("nvf::waitForPhase(" + full(s->buffer(), s->stage()) + ", " +
                    scalar(s->parity()).text + ");");
      case Part::SetEmpty:
        return line("nvf::arrive(" + empty(s->buffer(), s->stage()) + ");");
      case Part::Commit:
        return line("nvf::commitCopies();");
      case Part::Wait:
        return line("nvf::waitForCopies<" + std::to_string(s->count) + ">();");
      case Part::Fence:
        return line("nvf::fenceAsyncProxy();");
      case Part::CommitStores:
        return line("nvf::commitBulkCopies();");
      case Part::WaitForReads:
        return line("nvf::waitForBulkReads<0>();");
      case Part::WaitForStores:
        return line("nvf::waitForBulkCopies<0>();");
      case Part::GiveRegisters:
        return line("nvf::giveRegisters<" + std::to_string(s->count) + ">();");
      case Part::TakeRegisters:
        return line("nvf::takeRegisters<" + std::to_string(s->count) + ">();");
    }
  }

  // Before anything else: all threads pass it.
  void initBarriers() {
    const auto& buffers = kernel_->async_buffers;
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].bulk) {
        line("nvf::MBarrier* const " + barriersName(static_cast<int>(i)) +
             " = reinterpret_cast<nvf::MBarrier*>(smem + " + scalar(buffers[i].barriers).operand() +
             ");");
      }
    }
    block("if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)", [&] {
      for (size_t i = 0; i < buffers.size(); ++i) {
        if (buffers[i].bulk) {
          initBarriersOf(barriersName(static_cast<int>(i)), buffers[i]);
        }
      }
      line("nvf::fenceMBarrierInit();");
    });
    line(kernel_->load_warps.exist() ? "nvf::syncAllThreads();" : "nvf::syncBlock();");
  }

  void initBarriersOf(const std::string& name, const AsyncBuffer& buffer) {
    const std::string fillers = buffer.counts_by_copy ? scalar(buffer.issuers).text : "1";
    if (!buffer.isCircular()) {
      return line("nvf::initMBarrier(" + name + ", " + fillers + ");");
    }
    const std::string stages = std::to_string(buffer.stages);
    block("for (int stage = 0; stage < " + stages + "; ++stage)", [&] {
      line("nvf::initMBarrier(" + name + " + stage, " + fillers + ");");
      line("nvf::initMBarrier(" + name + " + " + stages + " + stage, " + readingThreads() + ");");
    });
  }

  std::string readingThreads() const {
    if (kernel_->load_warps.exist()) {
      return std::to_string(kernel_->load_warps.compute_threads);
    }
    const std::optional<int64_t> threads = numThreads();
    return threads.has_value() ? std::to_string(*threads) : "blockDim.x * blockDim.y * blockDim.z";
  }

  static bool isConstant(const Val* v, double number) {
    if (!v->isConst()) {
      return false;
    }
    const auto value = convertScalar(v->value(), DataType::Double);
    const auto* d = std::get_if<double>(&value);
    return d != nullptr && *d == number;
  }

  void randomNumber(const RandomNumber* r) {
    const auto* out = r->output(0)->as<TensorIndex>();
    const bool is_uniform = r->rng() == RngKind::Uniform;
    const bool is_unit = is_uniform && isConstant(r->input(0), 0.0) && isConstant(r->input(1), 1.0);
    std::string call = is_unit      ? "nvf::uniformUnit<"
                       : is_uniform ? "nvf::uniform<"
                                    : "nvf::normal<";
    call += std::string(kernelTypeName(out->dtype())) + ">(nvf::philox(" + scalar(r->seed()).text +
            ", " + named(r->block()) + ", " + scalar(r->offset()).text + "), static_cast<int>(" +
            scalar(r->lane()).text + ")";
    if (!is_unit) {
      call += ", " + scalar(r->input(0)).text + ", " + scalar(r->input(1)).text;
    }
    assign(r->output(0), call + ")");
  }

  void scanStep(const ScanStep* s) {
    const auto* out = s->output(0)->as<TensorIndex>();
    std::string carry = tensorName(out->view()) + "_carry";
    const auto* index = dynamic_cast<const NamedScalar*>(s->loopIndex());
    const auto loop = index == nullptr ? loop_level_.end() : loop_level_.find(index->text());
    const size_t where = loop == loop_level_.end() ? level() : loop->second - 1;
    declareCarry(carry, s->init(), out->dtype(), where);
    if (kernel_->thread_loops.exist) {
      carry += "[" + threadNumber() + "]";
    }
    const OpInfo& info = opInfo(s->op());
    const std::string in = convertedScalar(s->in(), out->dtype()).operand();
    line(carry + " = " +
         (info.infix[0] != '\0'
              ? carry + " " + info.infix + " " + in
              : "nvf::" + std::string(info.name) + "(" + carry + ", " + in + ")") +
         ";");
    assign(s->output(0), carry);
  }

  void declareCarry(const std::string& name, const Val* init, DataType dtype, size_t where) {
    const std::string type(kernelTypeName(dtype));
    const std::string value = convertedScalar(init, dtype).text;
    if (!kernel_->thread_loops.exist) {
      return lineAt(where, type + " " + name + " = " + value + ";");
    }
    lineAt(where, "Array<" + type + ", " + std::to_string(kernel_->thread_loops.threads()) + "> " +
                      name + ";");
    lineAt(where, name + ".set(" + value + ");");
  }

  void assign(const Val* out, const std::string& value) {
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
      const std::string type(kernelTypeName(tv->dtype()));
      if (it->second == level()) {
        target = type + " " + target;
      } else {
        lineAt(it->second, type + " " + tensorName(tv) + ";");
      }
      undeclared_.erase(it);
    }
    line(target + " = " + value + ";");
  }

  // --- reductions ---

  static std::string maskArguments(const DimMask& mask) {
    std::string out;
    for (bool b : mask) {
      out += (out.empty() ? "" : ", ") + std::string(b ? "true" : "false");
    }
    return out;
  }

  std::string blockArguments(const DimMask& threads) const {
    std::string out = maskArguments(threads);
    for (const ParallelType type : {ParallelType::TIDx, ParallelType::TIDy, ParallelType::TIDz}) {
      out += ", " + std::to_string(extentArgument(kernel_, type));
    }
    return out;
  }

  static const char* combinerName(OpType op) {
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

  std::string termText(const ReduceTerm& term) {
    const std::string count = std::to_string(term.count);
    const std::string type(kernelTypeName(term.buffers.front()->dtype()));
    std::string out;
    if (auto* op = dynamic_cast<const ReductionOp*>(term.reduction)) {
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

  // Takes in a value, a vector of values (into one mean, or each into its own), or a part.
  void welfordStep(const Expr* e) {
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

  std::string workspaceAt(const Val* offset) {
    return offset == nullptr
               ? "nullptr"
               : "smem" + (offset->isZeroInt() ? std::string() : " + " + scalar(offset).operand());
  }

  void threadScan(const ThreadScan* s) {
    const auto* op = s->scan()->as<ScanOp>();
    const std::string carry = tensorName(op->out()) + "_carry";
    if (s->part() == ThreadScan::Part::Begin) {
      return declareCarry(carry, s->init(), op->out()->dtype(), level());
    }
    if (kernel_->thread_loops.exist) {
      const auto* first = s->first->as<TensorIndex>();
      return line("nvf::scanThreads<" + std::string(combinerName(op->op())) + ", " +
                  std::to_string(s->threads) + ", " +
                  std::to_string(kernel_->thread_loops.threads()) + ", " +
                  std::to_string(s->count) + ", " + steps(first->view()) + ">(" +
                  ofFirstThread(first) + ", &" + carry + "[0]);");
    }
    line("nvf::blockScan<" + std::string(combinerName(op->op())) + ", " +
         std::to_string(s->threads) + ", " + std::to_string(s->count) + ">(" +
         workspaceAt(s->workspace) + ", " + address(s->first->as<TensorIndex>()) + ", " + carry +
         ");");
  }

  // From a value of a thread to its next one, and from a thread to the next.
  std::string steps(const TensorView* tv) const {
    const bool by_thread = kernel_->thread_loops.registers.at(tv) == ThreadLoops::Layout::ByThread;
    return by_thread ? "1, " + std::to_string(sizes_.at(tv))
                     : std::to_string(kernel_->thread_loops.threads()) + ", 1";
  }

  std::string ofFirstThread(const TensorIndex* t) {
    const bool by_thread =
        kernel_->thread_loops.registers.at(t->view()) == ThreadLoops::Layout::ByThread;
    const Text index = scalar(t->index());
    return "&" + tensorName(t->view()) + "[" +
           (by_thread || index.text == "0"
                ? index.text
                : index.operand() + " * " + std::to_string(kernel_->thread_loops.threads())) +
           "]";
  }

  // All buffers of a term are accessed in the same way.
  std::string termOfThreads(const ReduceTerm& term) {
    const std::string type(kernelTypeName(term.buffers.front()->dtype()));
    const auto* op = dynamic_cast<const ReductionOp*>(term.reduction);
    const bool is_softmax = term.reduction->kind() == ExprKind::OnlineSoftmaxOp;
    const std::string one =
        op != nullptr
            ? "nvf::ReduceTerm<" + std::string(combinerName(op->op())) + ", " + type + ", 1>"
        : is_softmax ? "nvf::SoftmaxTerm<" + type + ", 1>"
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

  void reduceThreads(const ThreadReduce* r) {
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

  void threadReduce(const ThreadReduce* r) {
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

  void clusterReduce(const ThreadReduce* r, const std::string& arguments,
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

  void sync(BlockSync::Scope scope) {
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

  void declareFlags(const std::vector<Expr*>& statements) {
    for (const Expr* e : statements) {
      if (const auto* loop = dynamic_cast<const ForLoop*>(e)) {
        declareFlags(loop->body());
      } else if (const auto* branch = dynamic_cast<const IfThenElse*>(e)) {
        declareFlags(branch->elseBody());
      } else if (const auto* r = dynamic_cast<const ThreadReduce*>(e);
                 r != nullptr && !r->flag.empty()) {
        line("bool " + r->flag + " = false;");
      }
    }
  }

  // --- tensors ---

  static std::string tensorName(const TensorView* tv) {
    return "T" + std::to_string(tv->name());
  }

  std::string elementIndex(const TensorIndex* t) {
    return t->view()->getMemoryType() == MemoryType::Local ? scalar(t->index()).text
                                                           : named(t->index());
  }

  std::string element(const TensorIndex* t) {
    if (single_.count(t->view()) != 0) {
      return tensorName(t->view());
    }
    if (auto it = kernel_->thread_loops.registers.find(t->view());
        it != kernel_->thread_loops.registers.end()) {
      return elementOfThread(t, it->second);
    }
    return tensorName(t->view()) + "[" + elementIndex(t) + "]";
  }

  std::string elementOfThread(const TensorIndex* t, ThreadLoops::Layout layout) {
    const Text index = scalar(t->index());
    const std::string thread = threadNumber();
    const bool is_first = index.text == "0";
    if (layout == ThreadLoops::Layout::ByElement) {
      const std::string before =
          is_first
              ? ""
              : index.operand() + " * " + std::to_string(kernel_->thread_loops.threads()) + " + ";
      return tensorName(t->view()) + "[" + before + thread + "]";
    }
    return tensorName(t->view()) + "[(" + thread + ") * " + std::to_string(sizes_.at(t->view())) +
           (is_first ? "" : " + " + index.text) + "]";
  }

  // A single register that was not assigned yet.
  void declare(const TensorView* tv) {
    if (auto it = undeclared_.find(tv); it != undeclared_.end()) {
      lineAt(it->second, std::string(kernelTypeName(tv->dtype())) + " " + tensorName(tv) + ";");
      undeclared_.erase(it);
    }
  }

  std::string address(const TensorIndex* t) {
    declare(t->view());
    return "&" + element(t);
  }

  std::string access(const TensorIndex* t) {
    const MemoryType memory = t->view()->getMemoryType();
    if (isFloat4(t->dtype()) && memory == MemoryType::Global) {
      return "nvf::fp4At(" + tensorName(t->view()) + ".data, " + elementIndex(t) + ")";
    }
    const std::string text = element(t);
    if (memory == MemoryType::Shared) {
      return "nvf::sharedRead(" + text + ")";
    }
    // The value, where an element is no reference (NVF_ELEMENT).
    const bool is_value = kernel_->thread_loops.exist && t->dtype() == DataType::Bool;
    return is_value && text.back() == ']' ? "bool(" + text + ")" : text;
  }

  // --- expressions ---

  // A value under a name in the outermost block where it can be computed.
  std::string named(const Val* v) {
    const Text t = scalar(v);
    return t.compound ? bindName(t) : t.text;
  }

  std::string bindName(const Text& t) {
    auto [it, fresh] = scopes_[t.level].named.try_emplace(t.text);
    if (fresh) {
      it->second = "idx" + std::to_string(next_name_++);
      lineAt(t.level, "const nvfuser_index_t " + it->second + " = " + t.text + ";");
    }
    return it->second;
  }

  // What an index expression takes from further out gets a name there.
  Text hoisted(Text t, size_t level, DataType dtype) {
    if (t.compound && t.level < level && isIndexType(dtype)) {
      return {bindName(t), t.level, false};
    }
    return t;
  }

  Text scalar(const Val* v) {
    if (const auto* t = dynamic_cast<const TensorIndex*>(v)) {
      return {access(t), level(), false};
    }
    if (v->isConst()) {
      const std::string text = literal(v->value(), v->dtype());
      return {text, 0, text.front() == '-'};
    }
    if (const auto* n = dynamic_cast<const NamedScalar*>(v)) {
      if (auto thread = thread_names_.find(n->text()); thread != thread_names_.end()) {
        auto loop = loop_level_.find(thread->second);
        return {thread->second, loop == loop_level_.end() ? 0 : loop->second, false};
      }
      auto it = loop_level_.find(n->text());
      const bool compound = n->text().find(' ') != std::string::npos;
      return {n->text(), it == loop_level_.end() ? 0 : it->second, compound};
    }
    if (auto it = names_.find(v); it != names_.end()) {
      return {it->second, 0, false};
    }
    if (in_piece_ != nullptr) {
      if (auto it = in_piece_->find(v); it != in_piece_->end()) {
        return scalar(it->second);
      }
    }
    if (const auto* copy = dynamic_cast<const LoadStoreOp*>(v->definition())) {
      return scalar(copy->in());
    }
    const auto* def = dynamic_cast<const ElementwiseOp*>(v->definition());
    NVF_ERROR(def != nullptr, "the scalar ", v->toInlineString(), " is not known to the kernel");
    return elementwise(def);
  }

  // A scalar operand in the type of the operation, so that C++ does not widen the arithmetic.
  Text convertedScalar(const Val* v, DataType dtype) {
    if (v->dtype() == dtype || v->kind() == ValKind::TensorIndex ||
        (isIndexType(v->dtype()) && isIndexType(dtype))) {
      return scalar(v);
    }
    if (v->isConst() && (dtype == DataType::Float || dtype == DataType::Double)) {
      const std::string text = literal(v->value(), dtype);
      return {text, 0, text.front() == '-'};
    }
    return {"nvf::cast<" + std::string(kernelTypeName(dtype)) + ">(" + scalar(v).text + ")",
            level(), false};
  }

  // The type that the operands of an op share: that of its tensors, else the result's.
  static DataType operandType(const ElementwiseOp* op) {
    const size_t first = op->op() == OpType::Where ? 1 : 0;
    for (size_t i = first; i < op->inputs().size(); ++i) {
      if (op->in(i)->kind() == ValKind::TensorIndex) {
        return op->in(i)->dtype();
      }
    }
    if (op->op() == OpType::Where) {
      return op->out()->dtype();
    }
    DataType widest = op->in(0)->dtype();
    for (const Val* v : op->inputs()) {
      if (isComplex(v->dtype()) || (isFloatingPoint(v->dtype()) && !isComplex(widest))) {
        widest = v->dtype() == DataType::Float && widest == DataType::Double ? widest : v->dtype();
      }
    }
    return widest;
  }

  Text elementwise(const ElementwiseOp* op) {
    const OpInfo& info = opInfo(op->op());
    const DataType type = operandType(op);
    const DataType out_type = op->out()->dtype();
    const bool is_index = !op->isTensorExpr() && isIndexType(out_type);
    std::vector<Text> in;
    size_t depth = 0;
    for (size_t i = 0; i < op->inputs().size(); ++i) {
      const bool is_condition = op->op() == OpType::Where && i == 0;
      const bool as_is = is_condition || info.arity == 1 || info.rule == TypeRule::LogicalBool ||
                         info.rule == TypeRule::MakeComplex;
      in.push_back(as_is ? scalar(op->in(i)) : convertedScalar(op->in(i), type));
      depth = std::max(depth, in.back().level);
    }
    if (is_index || isBoolean(out_type)) {
      for (size_t i = 0; i < in.size(); ++i) {
        in[i] = hoisted(in[i], depth, op->in(i)->dtype());
      }
    }
    auto call = [&](const std::string& function) {
      std::string text = function + "(";
      for (size_t i = 0; i < in.size(); ++i) {
        text += (i == 0 ? "" : ", ") + in[i].text;
      }
      return Text{text + ")", depth, false};
    };
    switch (op->op()) {
      case OpType::Cast:
        if (isIndexType(op->in(0)->dtype()) && isIndexType(out_type) && is_index) {
          return in[0];
        }
        return call("nvf::cast<" + std::string(kernelTypeName(out_type)) + ">");
      case OpType::Where:
        // The branch that isn't taken must not be evaluated: it may read out of bounds.
        return {in[0].operand() + " ? " + in[1].operand() + " : " + in[2].operand(), depth, true};
      case OpType::Div:
      case OpType::TrueDiv:
      case OpType::Mod:
        // Extents around a running loop are not 0; user data, scalars included, may be. C has no %
        // of floating point.
        if (isFloatingPoint(type)
                ? op->op() == OpType::Mod
                : !isComplex(type) && !(is_index && isNonzeroDivisor(op->in(1)))) {
          return call(std::string("nvf::") + info.name);
        }
        break;
      case OpType::Sub:
        if (const auto* out = dynamic_cast<const TensorIndex*>(op->output(0));
            out != nullptr && deviations_.count(out->view()) != 0) {
          return call("nvf::subtractRounded");
        }
        break;
      default:
        break;
    }
    // Low-precision types have no operators of their own.
    const bool is_approximate = approximate_.count(op) != 0;
    const bool infix = info.infix[0] != '\0' && !isLowPrecision(type) && !is_approximate &&
                       !(op->op() == OpType::BitwiseNot && isBoolean(type));
    if (!infix) {
      const std::string space = is_approximate ? "nvf::approx::" : "nvf::";
      return call(space + info.name);
    }
    if (in.size() == 1) {
      return {info.infix + in[0].operand(), depth, true};
    }
    // Sums and products of the same kind read better without parentheses on the left.
    const bool chain = in[0].compound &&
                       (op->op() == OpType::Add || op->op() == OpType::LogicalAnd) &&
                       op->in(0)->definition() != nullptr && op->in(0)->kind() == ValKind::Val &&
                       op->in(0)->definition()->kind() == ExprKind::ElementwiseOp &&
                       static_cast<ElementwiseOp*>(op->in(0)->definition())->op() == op->op();
    return {(chain ? in[0].text : in[0].operand()) + " " + info.infix + " " + in[1].operand(),
            depth, true};
  }

  const Kernel* kernel_;
  std::unordered_set<const Expr*> approximate_;
  std::unordered_set<const TensorView*> deviations_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Val*, std::string> names_;
  std::unordered_map<std::string, size_t> loop_level_;
  std::unordered_map<std::string, std::string> thread_names_;
  std::unordered_set<const TensorView*> single_;
  // Elements of a thread, of registers that loops over threads share.
  std::unordered_map<const TensorView*, int64_t> sizes_;
  // Single registers that were allocated (in the block of that level) but not assigned yet.
  std::unordered_map<const TensorView*, size_t> undeclared_;
  int vector_ = 1;
  bool in_thread_loop_ = false;
  // What quotients are in the current piece of a loop over threads.
  const std::unordered_map<const Val*, Val*>* in_piece_ = nullptr;
  bool must_wait_ = false; // for the previous kernel
  int next_name_ = 0;
};

} // namespace

std::string generateCudaKernel(const Kernel* kernel, const std::string& kernel_name) {
  return KernelPrinter(kernel).print(kernel_name);
}

} // namespace nvfuser::codegen
