// SPDX-License-Identifier: BSD-3-Clause
// See tile_exchange.h.
//
// A tile in shared memory is stored along dimension 2. It is written and read by whole vectors on
// one side and by single elements on the other, where the threads of a warp have different
// positions of dimension 1: these go to different banks because the vectors of a row, or of a few
// short ones, are permuted by the row (a swizzle).
#include <scheduler/tile_exchange.h>

#include <base/integer_math.h>
#include <ir/builder.h>
#include <machine.h>

#include <algorithm>

namespace nvfuser {

IterDomain* splitOff(IterDomain*& id, int64_t factor) {
  auto [outer, inner] = IterDomain::split(
      id, IrBuilder::createIn<Val>(id->container(), factor, DataType::Index), true);
  id = outer;
  return inner;
}

IterDomain* TileExchange::unswitched(std::vector<IterDomain*>& leading) {
  const ParallelType type = leading.back()->parallelType();
  IterDomain* one = splitOff(leading.back(), 1);
  leading.back()->parallelize(type);
  one->parallelize(ParallelType::Unswitch);
  return one;
}

void TileExchange::scheduleCopy(TensorView* tv, const TileAxes& axes) const {
  IterDomain* columns = axes.dimension_2;
  IterDomain* vector = splitOff(columns, vector_2);
  IterDomain* rows = axes.dimension_1;
  IterDomain* thread_x = nullptr;
  IterDomain* thread_y = nullptr;
  if (threads_in_loops) {
    // A loop along each dimension.
    thread_y = splitOff(rows, std::min(threads_y, tile_1));
    thread_x = splitOff(columns, std::min(threads_x, tile_2));
    rows = IterDomain::merge(rows, columns);
  } else {
    rows = IterDomain::merge(rows, columns);
    thread_x = splitOff(rows, threads_x);
    thread_y = splitOff(rows, threads_y);
  }
  thread_y->parallelize(ParallelType::TIDy);
  thread_x->parallelize(ParallelType::TIDx);
  std::vector<IterDomain*> loop = axes.leading;
  IterDomain* guarded = unswitch ? unswitched(loop) : nullptr;
  loop.insert(loop.end(), axes.others.begin(), axes.others.end());
  if (guarded != nullptr) {
    loop.push_back(guarded);
  }
  loop.insert(loop.end(), {rows, thread_y, thread_x, vector});
  tv->domain()->setLoopDomain(loop);
}

// Elements that stay together in a row of shared memory: a vector of the second group. Without
// vectors, what makes the first group's accesses fall into different banks.
int64_t TileExchange::chunkWidth(DataType dtype) const {
  if (vector_2 > 1) {
    return vector_2;
  }
  // Of a group of banks, or of one.
  const int64_t bytes = vector_1 > 1 ? kVectorBytes : kRegisterBytes;
  return std::clamp<int64_t>(bytes / dataTypeSizeBytes(dtype), 1, tile_2);
}

// That share what the banks hold, a register for each lane, if a row is shorter: neighbours of one
// vector of dimension 1.
int64_t TileExchange::rowsOfLine(DataType dtype) const {
  const int64_t rows = kWarp * kRegisterBytes / (tile_2 * dataTypeSizeBytes(dtype));
  return std::min(powerOfTwoUpTo(std::max<int64_t>(rows, 1)), vector_1);
}

// Of the rows of a line, by the vectors of dimension 1.
int64_t TileExchange::permutedChunks(DataType dtype) const {
  const int64_t chunks = tile_2 / chunkWidth(dtype) * rowsOfLine(dtype);
  return std::min(powerOfTwoFrom(ceilDiv(tile_1, vector_1)), chunks);
}

int64_t TileExchange::bytes(DataType dtype) const {
  const int64_t vectors = roundUp(ceilDiv(tile_1, vector_1), permutedChunks(dtype));
  return vectors * vector_1 * tile_2 * dataTypeSizeBytes(dtype);
}

// Rows along dimension 2, several in a line if they are short, whose chunks are permuted by the
// vector of dimension 1 that the row belongs to, where there are banks.
void TileExchange::allocate(TensorView* shared, const TileAxes& axes) const {
  IterDomain* row = axes.dimension_1;
  IterDomain* column = axes.dimension_2;
  std::vector<IterDomain*> allocation = axes.leading;
  if (threads_in_loops) {
    // The second group's copies transpose (lower/transposed_copies.h).
    allocation.insert(allocation.end(), {column, row});
  } else {
    const int64_t permuted = permutedChunks(shared->dtype());
    IterDomain* row_in_vector = splitOff(row, vector_1);
    IterDomain* in_chunk = splitOff(column, chunkWidth(shared->dtype()));
    if (const int64_t together = rowsOfLine(shared->dtype()); together > 1) {
      column = IterDomain::merge(splitOff(row_in_vector, together), column);
    }
    IterDomain* row_low = splitOff(row, permuted);
    IterDomain* column_low = splitOff(column, permuted);
    auto [row_out, column_out] = IterDomain::swizzle(SwizzleType::Xor, row_low, column_low);
    allocation.insert(allocation.end(),
                      {row, row_out, row_in_vector, column, column_out, in_chunk});
  }
  shared->domain()->setAllocationDomain(allocation,
                                        TensorDomain::contiguityFilledWith(allocation, true));
}

} // namespace nvfuser
