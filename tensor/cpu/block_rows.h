// Kernels that move and add indexed rows. Both sides of such an op are described as outer x rows x
// inner, for any strides.
#pragma once

#include <cstdint>
#include <vector>

#include "../ops/index/index.h"

namespace mezzo::cpu_kernels {

/** Offsets of a tensor's blocks, in elements: element (o, r, k) is at outer[o] + rows[r] +
 *  inner[k]. */
struct Blocks {
  char* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> outer, rows, inner;
  bool side_by_side = false;  // inner[k] == k: each block is contiguous

  /** Returns the rows of x at `positions` (row-major in the indexed dimensions, checked). */
  static Blocks indexed(const Tensor& x, const op::IndexedDims& dims, const Tensor& positions);
  /** Returns the blocks of the other operand, which has `before` dimensions, then those of the
   *  positions, then the rest. */
  static Blocks plain(const Tensor& y, int before, int positions_rank);

  std::int64_t numel() const {
    return static_cast<std::int64_t>(outer.size() * rows.size() * inner.size());
  }
};

/** Copies from to to, in any order. The rows of `to` are distinct. Both have one dtype. */
void move_blocks(const Blocks& from, const Blocks& to);

/** Copies from to to. Of several rows with one destination the last wins. Both have one dtype. */
void put_blocks(const Blocks& from, const Blocks& to);

/** Rows grouped by destination: the members of group g are order[start[g]] .. order[start[g+1] -
 *  1], in index order. */
struct RowGroups {
  std::vector<std::int64_t> order, start;

  /** Groups `positions` in 0..size-1; rows at position `skipped` are left out. */
  RowGroups(const Tensor& positions, std::int64_t size, std::int64_t skipped = -1);
  std::int64_t count() const { return static_cast<std::int64_t>(start.size()) - 1; }
};

/** Options of add_blocks. */
struct AddRows {
  double alpha = 1;
  bool overwrite = false;  // replace the destination by the sum
  bool average = false;    // divide each sum by its number of rows
};

/** Computes to (+)= alpha * from. Each sum runs in `compute` (f32, f64 or i64) in index order and
 *  is rounded once on store. */
void add_blocks(const Blocks& from, const Blocks& to, const RowGroups& groups, DType compute,
                const AddRows& how = {});

}  // namespace mezzo::cpu_kernels
