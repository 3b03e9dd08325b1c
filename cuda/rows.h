// Rows: both sides of an op that moves rows which an index names, seen as outer x rows x inner, and which row each index names.
// Sees: axes.h, deferred.h, ../tensor/ops/index.h; parsed by nvcc too.
// Read next: rows.cpp, kernels/rows.cu (the kernels), index.cpp (the ops made of them).
#pragma once

#include "../tensor/ops/index.h"
#include "axes.h"
#include "deferred.h"

namespace mezzo::gpu {

/** Where the elements (outer, row, inner) of a tensor lie. */
struct Rows {
  void* data = nullptr;
  DType dtype = DType::f32;
  Axes outer = {}, rows = {}, inner = {};

  /** Rows are numbered in row-major order over the indexed dimensions of x. */
  static Rows indexed(const Tensor& x, const op::IndexedDims& dims);
  /** The tensor on the other side, which has `before` dimensions, then those of the index, then the rest. */
  static Rows plain(const Tensor& y, int before, int index_rank);
  /** Every element a row of its own, in the order of `shape`, which x covers: an index over single elements. */
  static Rows elements(const Tensor& x, const Shape& shape);
  /** Every element a row of its own, numbered by its distance from the first in memory. */
  static Rows by_distance(const Tensor& x);
};

/** Which row each element of an index names: its value times `step`, from a row of its own on where `base` has one. The first value that is out of
 *  range is noted. */
struct Names {
  Tensor memory;  // i64 or i32, row-major
  std::int64_t size = 0;
  Axes base;
  std::int64_t step = 1;
  DeferredWord* bad = nullptr;

  /** Values of `index` in dimension `dim` of x, which `op` has been given. */
  Names(std::string_view op, const Tensor& index, const Tensor& x, int dim, std::int64_t size);
  std::int64_t count() const { return memory.numel(); }
};

}  // namespace mezzo::gpu
