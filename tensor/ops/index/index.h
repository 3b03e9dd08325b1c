// Indexing by rows, masks and several indices: index_select, index (x[i, mask, ...]), index_put,
// index_add, masked_select, nonzero. ops.h explains the notation and the precision tags.
// See also: gather.h (one index per element), embedding.h.
#pragma once

#include <vector>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Returns a row-major copy of the rows of x along `dim` that a 1-D (or 0-dim) index selects.
 *  Shape: x's, with the index's size along dim. index: i64 or i32, 0..size-1.
 *  Precision: match.
 *  Gradient: g added to zeros at the rows, in f32, rounded once.
 *  Errors: ShapeError, DtypeError; IndexError (names the first index out of range). */
MZ_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/** Options of index_add. */
struct IndexAddOptions {
  double alpha = 1;  // factor of the source
};

/** Returns x with alpha * src added to the rows along `dim` that a 1-D (or 0-dim) index selects,
 *  summed in f32 (f64; integers in i64) in index order, rounded once.
 *  Shape: x's. src is x's, with the index's size along dim, and has x's dtype.
 *  Precision: match.
 *  Gradient: g for x; for src, alpha times the rows of g.
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                        const IndexAddOptions& options = {});
/** Overwrites self with index_add(self, dim, index, src, options) and returns it. */
MZ_API const Tensor& index_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                const Tensor& src, const IndexAddOptions& options = {});

/** Returns x[i, j, ...]: index k of the list indexes dimension k; an undefined tensor keeps its
 *  dimension whole, like `:` in Python. Integer indices broadcast together; negative ones count
 *  from the end. A bool mask covers as many dimensions as it has, and selects the positions where
 *  it is true; it synchronises with the device.
 *  Shape: the dimensions of the broadcast indices replace the indexed ones if those are adjacent;
 *  otherwise they come first. The other dimensions follow in order.
 *  Precision: match.
 *  Gradient: g added to zeros at the positions, in f32, rounded once.
 *  Errors: DtypeError, ShapeError; IndexError (names the first index out of range). */
MZ_API Tensor index(const Tensor& x, const std::vector<Tensor>& indices);

/** Options of index_put. */
struct IndexPutOptions {
  bool accumulate = false;  // add to the elements instead of overwriting them
};

/** Returns x with `values`, broadcast, at the positions that index(x, indices) reads. Without
 *  accumulate, where several write to one position, the last in index order is kept. With it they
 *  are summed in f32 (f64; integers in i64) and rounded once.
 *  Precision: promote of x and values; in place self's dtype.
 *  Gradient: for x, g with 0 at those positions (with accumulate: g); for values, g at the
 *  positions, 0 where a later one overwrote them.
 *  Errors: as index, and ShapeError for the values. */
MZ_API Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                        const IndexPutOptions& options = {});
/** Overwrites self with index_put(self, indices, values, options) and returns it. */
MZ_API const Tensor& index_put_(const Tensor& self, const std::vector<Tensor>& indices,
                                const Tensor& values, const IndexPutOptions& options = {});

/** Returns the elements of x where the bool mask is true, in row-major order; x and mask broadcast.
 *  Synchronises with the device.
 *  Shape: [count].
 *  Precision: match.
 *  Gradient: g scattered to the selected positions.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/** Returns the coordinates of the nonzero elements in row-major order; nan counts as nonzero.
 *  Synchronises with the device.
 *  Shape: i64 [count, rank of x].
 *  Gradient: none. */
MZ_API Tensor nonzero(const Tensor& x);

}  // namespace mezzo

namespace mezzo::op {

// See also: tensor/cpu/block_rows.h (how rows are moved).

/** The rows of x along `dim` that a 1-D (or 0-dim) index selects. Operands: x, index. */
struct IndexSelect {
  static constexpr OpTraits traits{.name = "index_select",
                                   .precision = Precision::match,
                                   .summary = "rows at given indices along a dimension",
                                   .inputs = 2,
                                   .needs = {input(1)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** x with alpha * src added to the rows that a 1-D (or 0-dim) index selects. Sums run in f32 (f64,
 *  i64) in index order and are rounded once. Operands: x, index, src. */
struct IndexAdd {
  static constexpr OpTraits traits{.name = "index_add",
                                   .precision = Precision::match,
                                   .summary = "adds rows at given indices along a dimension",
                                   .inputs = 3,
                                   .needs = {kNothing, kNothing, input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
    double alpha = 1;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** A tuple of index tensors combined into one. They are broadcast together, negative indices wrap,
 *  and each combination becomes its row-major position in the dimensions `dims` (bit i: dimension
 *  i) of x. The result is an operand of index and index_put. Operands: x, one index per
 *  dimension. */
struct IndexPositions {
  static constexpr OpTraits traits{.name = "index_positions",
                                   .precision = Precision::match,
                                   .summary = "row-major positions of a tuple of indices",
                                   .inputs = kVariadic,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    std::uint32_t dims = 0;
    const char* op = "index_positions";  // the op that errors name
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** The blocks of x at `positions` of the dimensions in `dims` (bit i: dimension i). The dimensions
 *  of `positions` replace the indexed ones if those are adjacent, else they come first. Operands:
 *  x, positions (row-major in the indexed dimensions, non-negative). */
struct Index {
  static constexpr OpTraits traits{
      .name = "index",
      .precision = Precision::match,
      .summary = "x[i, j, ...] with index tensors; other dimensions are kept",
      .inputs = 2,
      .needs = {input(1)},
      .integers = Integers::keep,
      .booleans = true};
  struct Attrs {
    std::uint32_t dims = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** x with broadcast values written (or added, in f32 and rounded once) to the elements that Index
 *  returns. If several writes hit one element, the last in index order wins. Operands: x,
 *  positions, values. */
struct IndexPut {
  static constexpr OpTraits traits{.name = "index_put",
                                   .precision = Precision::promote,
                                   .summary = "x[i, j, ...] = values, or += values",
                                   .inputs = 3,
                                   .needs = {input(1), kNothing, input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::uint32_t dims = 0;
    bool accumulate = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Coordinates of the non-zero elements in row-major order, i64 [count, rank]; nan counts as
 *  non-zero. The kernel counts them and makes the result. */
struct Nonzero {
  static constexpr OpTraits traits{.name = "nonzero",
                                   .precision = Precision::match,
                                   .summary = "coordinates of the non-zero elements",
                                   .differentiable = false};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
};

/** The elements of x where the bool mask, in row-major order of x, is true, as a 1-D tensor, which
 *  the kernel makes. Operands: x, mask [numel of x]. */
struct MaskedValues {
  static constexpr OpTraits traits{.name = "masked_values",
                                   .precision = Precision::match,
                                   .summary = "elements where the mask is true, without gradient",
                                   .inputs = 2,
                                   .differentiable = false,
                                   .internal = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
};

/** The elements of x where the broadcast bool mask is true, as a 1-D tensor. Operands: x, mask. */
struct MaskedSelect {
  static constexpr OpTraits traits{.name = "masked_select",
                                   .precision = Precision::match,
                                   .summary = "elements where the mask is true",
                                   .inputs = 2,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

using IndexOps = type_list<Index, IndexAdd, IndexPositions, IndexPut, IndexSelect, MaskedSelect,
                           MaskedValues, Nonzero>;

/** The dimensions of a tensor that is indexed in the dimensions `dims`, in three groups: before the
 *  rows of the result, indexed, and after. */
struct IndexedDims {
  Shape before, indexed, after;  // dimension numbers

  IndexedDims(std::uint32_t dims, int rank);
  /** Returns the shape of the result: sizes before, the positions' shape, sizes after. */
  Shape result(const Shape& x, const Shape& positions) const;
};

}  // namespace mezzo::op
