// SPDX-License-Identifier: BSD-3-Clause
// See row_exchange.h.
#include <scheduler/row_exchange.h>

#include <base/error.h>
#include <machine.h>
#include <scheduler/access_width.h>
#include <scheduler/tile_exchange.h>
#include <transform/tensor_graph.h>

#include <algorithm>

namespace nvfuser {

bool RowExchange::takes(size_t position) const {
  const auto& all = params_.exchanged;
  return std::find(all.begin(), all.end(), static_cast<int64_t>(position)) != all.end();
}

bool RowExchange::copiesAsync(const TensorView* input, size_t position) const {
  return widthAt(params_.vector_widths, position) * dataTypeSizeBits(input->dtype()) >=
         8 * kRegisterBytes;
}

TensorView* RowExchange::addInput(TensorView* input, size_t position) {
  Exchange e;
  e.width = widthAt(params_.vector_widths, position);
  if (copiesAsync(input, position)) { // needs no registers on the way
    e.shared = input->cacheAfter(LoadStoreOpType::CpAsync);
    e.copies = {e.shared};
  } else {
    e.loaded = input->cacheAfter();
    e.shared = e.loaded->cacheAfter();
    e.copies = {e.loaded, e.shared};
  }
  e.shared->setMemoryType(MemoryType::Shared);
  exchanges_.push_back(e);
  return e.shared;
}

void RowExchange::addOutput(TensorView* stored, size_t position) {
  Exchange e;
  e.width = widthAt(params_.vector_widths, position);
  TensorView* read = stored->cacheBefore();
  e.shared = read->cacheBefore();
  e.shared->setMemoryType(MemoryType::Shared);
  e.copies = {stored, read};
  exchanges_.push_back(e);
}

namespace {

// Axes before the tile get the types of the reference's.
TileAxes axesOf(TensorView* tv, const std::vector<int64_t>& known, const TensorView* reference,
                int64_t tile) {
  TileAxes out;
  std::vector<IterDomain*> found(static_cast<size_t>(tile) + 2, nullptr);
  for (size_t i = 0; i < known.size(); ++i) {
    IterDomain* id = tv->axis(static_cast<int64_t>(i));
    if (known[i] < 0 || known[i] > tile + 1) {
      out.others.push_back(id);
      continue;
    }
    found[static_cast<size_t>(known[i])] = id;
    if (known[i] < tile) {
      id->parallelize(reference->axis(known[i])->parallelType());
    }
  }
  NVF_CHECK(std::find(found.begin(), found.end(), nullptr) == found.end(),
            "exchanged: ", tv->toString(), " has not all dimensions of ", reference->toString());
  out.dimension_1 = found.back();
  found.pop_back();
  out.dimension_2 = found.back();
  found.pop_back();
  out.leading = found;
  return out;
}

} // namespace

void RowExchange::schedule(const TensorView* reference, int64_t tile,
                           const std::unordered_map<TensorView*, std::vector<int64_t>>& axes) {
  TileExchange exchange;
  exchange.tile_1 = params_.reducedElements();
  exchange.tile_2 = params_.lparams.bdimy();
  exchange.vector_1 = params_.unroll_factor_inner_reduction;
  exchange.threads_x = params_.lparams.bdimx();
  exchange.threads_y = params_.lparams.bdimy();
  const auto axesIn = [&](TensorView* tv) {
    const auto known = axes.find(tv);
    NVF_CHECK(known != axes.end(), "exchanged: ", tv->toString(), " has no dimension of ",
              reference->toString());
    return axesOf(tv, known->second, reference, tile);
  };
  for (const Exchange& e : exchanges_) {
    exchange.vector_2 = e.width;
    exchange.allocate(e.shared, axesIn(e.shared));
    for (TensorView* tv : e.copies) {
      exchange.scheduleCopy(tv, axesIn(tv));
      copies_.insert(tv);
      if (e.width > 1) {
        tv->axis(-1)->parallelize(ParallelType::Vectorize);
      }
    }
  }
}

std::vector<TensorView*> RowExchange::others(const Fusion* fusion) const {
  if (copies_.empty()) {
    return {};
  }
  std::vector<TensorView*> out = TensorGraph(fusion).tensors();
  std::erase_if(out, [&](const TensorView* tv) { return isCopy(tv); });
  return out;
}

bool RowExchange::isTile(const TensorView* tv) const {
  return std::any_of(exchanges_.begin(), exchanges_.end(),
                     [&](const Exchange& e) { return e.shared == tv; });
}

bool RowExchange::isLoaded(const TensorView* tv) const {
  return std::any_of(exchanges_.begin(), exchanges_.end(),
                     [&](const Exchange& e) { return e.loaded == tv; });
}

} // namespace nvfuser
