// SPDX-License-Identifier: BSD-3-Clause
// See common_expressions.h.
#include <preseg_passes/common_expressions.h>

#include <base/hash.h>
#include <ir/builder.h>
#include <ir/evaluator.h>
#include <ir/op_traits.h>
#include <ir/visitor.h>

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>
#include <vector>

namespace nvfuser {

namespace {

using Words = std::vector<uint64_t>;

struct WordsHash {
  size_t operator()(const Words& words) const {
    size_t h = words.size();
    for (const uint64_t w : words) {
      h = hashCombine(h, static_cast<size_t>(w));
    }
    return h;
  }
};

bool isCommutative(OpType op) {
  switch (op) {
    case OpType::Add:
    case OpType::Mul:
    case OpType::Minimum:
    case OpType::Maximum:
    case OpType::Eq:
    case OpType::Ne:
    case OpType::LogicalAnd:
    case OpType::LogicalOr:
    case OpType::BitwiseAnd:
    case OpType::BitwiseOr:
    case OpType::BitwiseXor:
      return true;
    default:
      return false;
  }
}

} // namespace

class CommonExpressions::Numbering {
 public:
  Expr* firstLike(Expr* e) {
    if (!isDetermined(e) || isBoundary(e)) {
      return nullptr;
    }
    auto [it, is_new] = first_.try_emplace(wordsOf(e), e);
    return is_new ? nullptr : it->second;
  }

 private:
  Words wordsOf(const Expr* e) {
    Words words{static_cast<uint64_t>(e->kind())};
    for (const NamedField& field : e->fields()) {
      std::visit([&](const auto& value) { put(words, value); }, field.value);
    }
    std::vector<uint64_t> operands;
    const auto* op = tryAs<ElementwiseOp>(e);
    for (const Val* in : e->inputs()) {
      operands.push_back(op != nullptr && in->isConst() ? numberAsRead(op, in) : numberOf(in));
    }
    if (op != nullptr && isCommutative(op->op())) {
      std::sort(operands.begin(), operands.end());
    }
    put(words, operands);
    for (const Val* out : e->outputs()) {
      putResult(words, out->as<TensorView>());
    }
    return words;
  }

  // What operands and fields leave open of a result.
  void putResult(Words& words, const TensorView* tv) {
    words.push_back(static_cast<uint64_t>(tv->dtype()));
    const auto& logical = tv->getLogicalDomain();
    const auto& root = tv->getMaybeRootDomain();
    for (IterDomain* id : logical) {
      words.push_back(static_cast<uint64_t>(id->iterType()));
      words.push_back(numberOf(id->extent()));
      words.push_back(id->hasExpandedExtent() ? numberOf(id->expandedExtent()) : 0);
      // Where it comes from, if it is not made of root domains by the operation.
      words.push_back(
          static_cast<uint64_t>(std::find(root.begin(), root.end(), id) - root.begin()));
    }
  }

  template <class T>
  void put(Words& words, const std::vector<T>& values) {
    words.push_back(values.size());
    for (const auto& v : values) {
      if constexpr (std::is_same_v<T, bool>) {
        words.push_back(v ? 1 : 0);
      } else {
        put(words, v);
      }
    }
  }
  void put(Words& words, bool value) {
    words.push_back(value ? 1 : 0);
  }
  void put(Words& words, int64_t value) {
    words.push_back(static_cast<uint64_t>(value));
  }
  void put(Words& words, uint64_t value) {
    words.push_back(value);
  }
  void put(Words& words, const std::string& value) {
    put(words, std::vector<int64_t>(value.begin(), value.end()));
  }
  void put(Words& words, Val* value) {
    words.push_back(numberOf(value));
  }

  // Kernels convert a float constant to the type of the tensors that it is computed with.
  uint64_t numberAsRead(const ElementwiseOp* op, const Val* constant) {
    const auto tensor = std::find_if(op->inputs().begin(), op->inputs().end(),
                                     [](const Val* in) { return in->isTensor(); });
    const DataType dtype = (*tensor)->dtype();
    if (!isFloatingPoint(constant->dtype()) || !isFloatingPoint(dtype)) {
      return numberOf(constant);
    }
    return numberOf(IrBuilder::create<Val>(convertScalar(constant->value(), dtype), dtype));
  }

  // The same for equal values, never 0 but for null. Tensors are equal if they are the same one:
  // others have been replaced.
  uint64_t numberOf(const Val* root) {
    if (root == nullptr) {
      return 0;
    }
    const auto maker = [](const Val* v) -> const Expr* {
      return v->isTensor() || v->isConst() ? nullptr : v->definition();
    };
    visitOperandsFirst(
        root, [&](const Val* v) { return numbers_.count(v) != 0; },
        [&](const Val* v, const auto& add) {
          if (const Expr* e = maker(v)) {
            std::for_each(e->inputs().begin(), e->inputs().end(), add);
          }
        },
        [&](const Val* v) { numbers_[v] = newNumber(v, maker(v)); });
    return numbers_.at(root);
  }

  // Operands of `e`, the definition of a scalar, have theirs.
  uint64_t newNumber(const Val* v, const Expr* e) {
    Words words;
    if (v->isConst()) {
      words = constantWords(v);
    } else if (e != nullptr && e->kind() == ExprKind::ElementwiseOp) {
      words = {static_cast<uint64_t>(static_cast<const ElementwiseOp*>(e)->op()),
               static_cast<uint64_t>(v->dtype())};
      for (const Val* in : e->inputs()) {
        words.push_back(numbers_.at(in));
      }
    } else {
      return ++last_;
    }
    const auto [it, is_new] = scalars_.try_emplace(std::move(words), last_ + 1);
    last_ += is_new ? 1 : 0;
    return it->second;
  }

  static Words constantWords(const Val* v) {
    // Whether a constant integer is an index follows from where it stands.
    const DataType dtype = v->dtype() == DataType::Index ? DataType::Int : v->dtype();
    Words words{~uint64_t{0}, static_cast<uint64_t>(dtype)};
    if (const auto* d = std::get_if<double>(&v->value())) {
      words.push_back(std::bit_cast<uint64_t>(*d));
    } else if (const auto* c = std::get_if<std::complex<double>>(&v->value())) {
      words.push_back(std::bit_cast<uint64_t>(c->real()));
      words.push_back(std::bit_cast<uint64_t>(c->imag()));
    } else if (const auto* b = std::get_if<bool>(&v->value())) {
      words.push_back(*b ? 1 : 0);
    } else {
      words.push_back(static_cast<uint64_t>(v->intValue()));
    }
    return words;
  }

  std::unordered_map<Words, Expr*, WordsHash> first_;
  std::unordered_map<const Val*, uint64_t> numbers_;
  std::unordered_map<Words, uint64_t, WordsHash> scalars_;
  uint64_t last_ = 0;
};

CommonExpressions::CommonExpressions() : numbering_(std::make_unique<Numbering>()) {}
CommonExpressions::~CommonExpressions() = default;

Expr* CommonExpressions::firstLike(Expr* e) {
  return numbering_->firstLike(e);
}

} // namespace nvfuser
