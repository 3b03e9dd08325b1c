// Moving and adding rows that an index names: both sides of such an op seen as outer x rows x inner, whatever their strides.
// Sees: ../ops/index.h.
// Read next: index.cpp, embedding.cpp (the kernels made of these).
#pragma once

#include <cstdint>
#include <vector>

#include "../ops/index.h"

namespace mezzo::cpu_kernels {

/** Offsets, in elements, of a tensor's blocks: element (o, r, k) lies at outer[o] + rows[r] + inner[k]. */
struct Blocks {
  char* data = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> outer, rows, inner;
  bool side_by_side = false;  // inner[k] == k: a block is one run of memory

  /** The rows at `positions` (row-major in the indexed dimensions, checked) of x. */
  static Blocks indexed(const Tensor& x, const op::IndexedDims& dims, const Tensor& positions);
  /** The tensor on the other side, which has `before` dimensions, then those of the positions, then the rest. */
  static Blocks plain(const Tensor& y, int before, int positions_rank);

  std::int64_t numel() const { return static_cast<std::int64_t>(outer.size() * rows.size() * inner.size()); }
};

/** to = from, in any order: no two rows of `to` are one. Both have one dtype. */
void move_blocks(const Blocks& from, const Blocks& to);

/** to = from, where of several rows with one place the last stays. Both have one dtype. */
void put_blocks(const Blocks& from, const Blocks& to);

/** Rows that go to one place, grouped: the members of group g are order[start[g]] .. order[start[g+1] - 1], in index order. */
struct RowGroups {
  std::vector<std::int64_t> order, start;

  /** `positions` are in 0..size-1; rows at `skipped` are left out. */
  RowGroups(const Tensor& positions, std::int64_t size, std::int64_t skipped = -1);
  std::int64_t count() const { return static_cast<std::int64_t>(start.size()) - 1; }
};

struct AddRows {
  double alpha = 1;
  bool overwrite = false;  // the sum replaces what is there
  bool average = false;    // divides each sum by its number of rows
};

/** to (+)= alpha * from. Each sum runs in `compute` (f32, f64 or i64), in index order, and is rounded once when stored. */
void add_blocks(const Blocks& from, const Blocks& to, const RowGroups& groups, DType compute,
                const AddRows& how = {});

}  // namespace mezzo::cpu_kernels
