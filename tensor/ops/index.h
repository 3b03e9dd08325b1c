// Ops whose index tensor selects whole rows: index_select, x[i, mask, ...] (index), index_put,
// index_add, masked_select, nonzero.
// See also: gather.h (one index per element), tensor/cpu/block_rows.h (how rows are moved).
#pragma once

#include "../core/op.h"

namespace mezzo::op {

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
 *  non-zero. The caller counts them first and passes `count`. */
struct Nonzero {
  static constexpr OpTraits traits{.name = "nonzero",
                                   .precision = Precision::match,
                                   .summary = "coordinates of the non-zero elements",
                                   .differentiable = false};
  struct Attrs {
    std::int64_t count = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
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

using IndexOps =
    type_list<Index, IndexAdd, IndexPositions, IndexPut, IndexSelect, MaskedSelect, Nonzero>;

/** The dimensions of a tensor that is indexed in the dimensions `dims`, in three groups: before the
 *  rows of the result, indexed, and after. */
struct IndexedDims {
  Shape before, indexed, after;  // dimension numbers

  IndexedDims(std::uint32_t dims, int rank);
  /** Returns the shape of the result: sizes before, the positions' shape, sizes after. */
  Shape result(const Shape& x, const Shape& positions) const;
};

}  // namespace mezzo::op
