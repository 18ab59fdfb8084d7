// SPDX-License-Identifier: BSD-3-Clause
// The printer behind codegen.h. Its methods stand in several files: the signature and the blocks of
// text in codegen.cpp, the others in kernel_*.cpp by what they print.
#pragma once

#include <base/unique_vector.h>
#include <codegen/approximate.h>
#include <codegen/deviations.h>
#include <codegen/wide_registers.h>
#include <kernel/kernel.h>

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nvfuser::codegen {

// Text of an expression, how it binds, and the innermost scope that its variables belong to.
struct Text {
  std::string text;
  size_t level = 0; // of the innermost variable in it
  bool compound = false;
  bool wide = false;         // an integer of 64 bits, whatever indices have
  bool from_element = false; // of a tensor: another one after the next assignment

  std::string operand() const {
    return compound ? "(" + text + ")" : text;
  }
};

// A block of the kernel text. Named values are declared in the block of their innermost variable.
struct Scope {
  std::string text;
  std::unordered_map<std::string, std::string> named;
  // Long scalars that have a name; [1]: as values, see KernelPrinter::is_value_.
  std::array<std::unordered_map<const Val*, Text>, 2> shortened;
  // Single registers of it that were computed of results of reductions.
  VectorOfUniqueEntries<const TensorView*> statistics;
  // Long arrays of it, of 16-bit elements, that were read as floats.
  VectorOfUniqueEntries<const TensorView*> narrow;
};

class KernelPrinter {
 public:
  explicit KernelPrinter(const Kernel* kernel)
      : kernel_(kernel),
        approximate_(approximableOps(kernel)),
        deviations_(deviationsOfProducts(kernel)),
        wide_(kernel) {
    nameExtents();
  }
  std::string print(const std::string& name);

 private:
  // --- the signature, and blocks of text (codegen.cpp) ---

  // Those of the schedule in a block, if that is a constant.
  std::optional<int64_t> numThreads() const;
  int64_t maxThreads() const;
  std::string parameters() const;
  // A symbolic extent is read from the first parameter that has it.
  void nameExtents();
  void nameParam(const KernelParam& p, const Text& name);
  // threadIdx and blockIdx are unsigned on CUDA; index arithmetic is signed (x - 5 must be able to
  // be negative).
  void nameThreadIndices();
  size_t level() const;
  void lineAt(size_t where, const std::string& text);
  void line(const std::string& text);
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
    line(head.empty() ? "{" : head + " {");
    scopes_.back().text += text;
    line(tail);
  }

  // --- statements (kernel_statements.cpp) ---

  // Loads of what is there already need not wait for the previous kernel. Every thread waits: no
  // branch is around it.
  void waitIfNeeded(const Expr* e);
  void letNextStart();
  bool mayRunEarly(const Expr* e) const;
  bool isEarlyInput(const TensorView* tv) const;
  void statement(const Expr* e);
  void loop(const ForLoop* l);
  // for z, for y, for x. The threads of a block do not depend on each other between barriers.
  void threadLoop(const ThreadLoop* l);
  void overThreads(const ThreadLoop* l, int axis = 2);
  void threadsFrom(const std::string& first, const std::string& end, const std::string& name,
                   const ThreadLoop* l, int axis);
  void threadPieces(const ThreadLoop* l, const std::string& name, const std::string& end);
  void transposedCopy(const ThreadLoop::Transposed& c);
  void streamedLoop(const ThreadLoop* l);
  static std::string threadIndex(int axis);
  // The number of the thread in its block. Outside of loops over threads, what the first one has
  // stands for all.
  std::string threadNumber() const;
  void branch(const IfThenElse* b);
  std::string blockText(const std::vector<Expr*>& statements);
  void allocate(const Allocate* a);
  void copy(const LoadStoreOp* op);
  std::string vectorFunction(const std::string& name, const TensorIndex* out) const;
  // A tensor of one dimension, where in it the vector begins, and its extent.
  std::string unalignedSource(const TensorIndex* out, const TensorIndex* in);
  void vectorCopy(const LoadStoreOp* op, const TensorIndex* out, const TensorIndex* in);
  static bool isConstant(const Val* v, double number);
  void randomNumber(const RandomNumber* r);
  void assign(const Val* out, const std::string& value);

  // --- asynchronous copies (kernel_copies.cpp) ---

  void bulkCopy(const BulkCopy* copy);
  void linearBulkCopy(const LinearBulkCopy* copy);
  static std::string barriersName(int buffer);
  // The mbarrier that says that a slot is full.
  std::string full(int buffer, const Val* stage);
  // The one that says that it is empty.
  std::string empty(int buffer, const Val* stage);
  void copyStep(const CopyStep* s);
  // Before anything else: all threads pass it.
  void initBarriers();
  void initBarriersOf(const std::string& name, const AsyncBuffer& buffer);
  std::string readingThreads() const;

  // --- reductions and scans (kernel_reductions.cpp) ---

  void scanStep(const ScanStep* s);
  void declareCarry(const std::string& name, const Val* init, DataType dtype, size_t where);
  static std::string maskArguments(const DimMask& mask);
  std::string blockArguments(const DimMask& threads) const;
  static const char* combinerName(OpType op);
  std::string termText(const ReduceTerm& term);
  // Accumulates a value, a vector of values (into one mean, or each into its own), or a part.
  void welfordStep(const Expr* e);
  std::string workspaceAt(const Val* offset);
  void threadScan(const ThreadScan* s);
  // From a value of a thread to its next one, and from a thread to the next.
  std::string steps(const TensorView* tv) const;
  std::string ofFirstThread(const TensorIndex* t);
  // All buffers of a term are accessed in the same way.
  std::string termOfThreads(const ReduceTerm& term);
  void reduceThreads(const ThreadReduce* r);
  void combineThreads(const ThreadReduce* r);
  // A statistic of a row that is read before and after a reduction is another number for the
  // compiler then, and so are 16-bit elements after the last one: it would keep what it computed of
  // both, which takes more registers than these.
  void noteStatistic(const Val* out, const Expr* e);
  void renewStatistics();
  void renewElements();
  bool isStatistic(const Val* v) const;
  void threadReduce(const ThreadReduce* r);
  void clusterReduce(const ThreadReduce* r, const std::string& arguments,
                     const std::string& workspace, const std::string& terms);
  void sync(BlockSync::Scope scope);
  void declareFlags(const std::vector<Expr*>& statements);

  // --- tensors and expressions (kernel_expressions.cpp) ---

  static std::string tensorName(const TensorView* tv);
  std::string elementIndex(const TensorIndex* t);
  std::string element(const TensorIndex* t);
  std::string elementOfThread(const TensorIndex* t, ThreadLoops::Layout layout);
  // The type that a single register is declared with.
  std::string registerType(const TensorView* tv) const;
  // A single register that was not assigned yet.
  void declare(const TensorView* tv);
  std::string address(const TensorIndex* t);
  std::string access(const TensorIndex* t);
  // A value under a name in the outermost block where it can be computed.
  std::string named(const Val* v);
  std::string bindName(const Text& t, DataType dtype);
  // What an index expression takes from further out gets a name there.
  Text hoisted(Text t, size_t level, DataType dtype);
  // Long expressions get a name, so that one with many uses is not written out for each of them.
  const Text* shortened(const Val* v) const;
  Text shortened(Text t, const Val* v);
  Text scalar(const Val* v);
  // A scalar operand in the type of the operation, so that C++ does not widen the arithmetic.
  Text convertedScalar(const Val* v, DataType dtype);
  // A value of a 16-bit type as the float that it is.
  Text asFloat(const Val* v, DataType dtype);
  // What a conversion is to a register that holds floats, or from a 16-bit value.
  std::optional<Text> conversion(const ElementwiseOp* op);
  // A selection between 16-bit values that are held as floats.
  std::optional<Text> floatSelection(const ElementwiseOp* op);
  static std::string selection(const std::vector<Text>& in);
  // The type that the operands of an op share: that of its tensors, else the result's.
  static DataType operandType(const ElementwiseOp* op);
  // Whether a conversion of integers is one to more bits.
  bool widens(DataType from, DataType to) const;
  Text elementwise(const ElementwiseOp* op);
  // `result`: where what is made of them belongs.
  std::vector<Text> operandsOf(const ElementwiseOp* op, Text& result);

  const Kernel* kernel_;
  std::unordered_set<const Expr*> approximate_;
  std::unordered_set<const TensorView*> deviations_;
  WideRegisters wide_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Val*, Text> names_;
  // Of sizes that elements are computed with in 64 bits, where indices have 32.
  std::unordered_map<const Val*, Text> names_in_indices_;
  bool is_value_ = false; // what is printed: elements are computed with it
  std::unordered_map<std::string, size_t> loop_level_;
  std::unordered_map<std::string, std::string> thread_names_;
  std::unordered_set<const TensorView*> single_;
  const Expr* last_reduction_ = nullptr; // among threads
  // Whose elements may be converted again: the level of the block.
  std::unordered_map<const TensorView*, size_t> long_arrays_;
  std::unordered_set<const TensorView*> streamed_; // by the loop over threads that is printed
  // Elements of a thread, of registers that loops over threads share.
  std::unordered_map<const TensorView*, int64_t> sizes_;
  // Single registers that were allocated but not assigned yet.
  struct Undeclared {
    size_t level; // of the block
    bool is_zeroed;
  };
  std::unordered_map<const TensorView*, Undeclared> undeclared_;
  int vector_ = 1;
  bool in_thread_loop_ = false;
  // What quotients are in the current piece of a loop over threads.
  const std::unordered_map<const Val*, Val*>* in_piece_ = nullptr;
  bool must_wait_ = false; // for the previous kernel
  int next_name_ = 0;
};

} // namespace nvfuser::codegen
