// Rows and Names: tensors of indexed ops as outer x rows x inner, and the row that each index
// element selects. Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/ops/index/index.h"
#include "../runtime/index_errors.h"
#include "host_lines.h"

namespace mezzo::gpu {

/** The offsets of the elements (outer, row, inner) of a tensor. */
struct Rows {
  void* data = nullptr;
  DType dtype = DType::f32;
  Axes outer = {}, rows = {}, inner = {};

  /** The indexed operand x. Rows are numbered in row-major order over its indexed dimensions. */
  static Rows indexed(const Tensor& x, const op::IndexedDims& dims);
  /** The other operand: `before` dimensions, then those of the index, then the rest. */
  static Rows plain(const Tensor& y, int before, int index_rank);
  /** Each element is a row, in the order of `shape`, which x covers, for an index over single
   *  elements. */
  static Rows elements(const Tensor& x, const Shape& shape);
  /** Each element is a row, numbered by its offset in memory. */
  static Rows by_distance(const Tensor& x);
};

/** The row that each index element selects: its value times `step`, plus an offset from `base`
 *  where that has axes. The first value that is out of range is recorded. */
struct Names {
  Tensor memory;  // i64 or i32, row-major
  std::int64_t size = 0;
  Axes base;
  std::int64_t step = 1;
  IndexErrorWord* bad = nullptr;

  /** For the values of `index` in dimension `dim` of x; `op` is named in errors. */
  Names(std::string_view op, const Tensor& index, const Tensor& x, int dim, std::int64_t size);
  std::int64_t count() const { return memory.numel(); }
};

}  // namespace mezzo::gpu
