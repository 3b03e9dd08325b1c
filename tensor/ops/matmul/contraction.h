// Tensor contractions: bilinear, einsum, multi_dot, tensordot. ops.h explains the notation
// and the precision tags.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Returns y_o = x1^T W_o x2 + b_o.
 *  Shape: x1 [..., n], x2 [..., m], weight [out, n, m], bias [out] or undefined give [..., out].
 *  Precision: promote, the bias included; computed in f32 (f64), one rounding.
 *  Gradient: the derivative, for each operand in its dtype.
 *  Errors: ShapeError, also where leading dimensions differ; DtypeError. */
MZ_API Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight,
                       const Tensor& bias = {});

/** Returns the product of a list of matrices, as multi_dot; a single matrix is returned unchanged.
 *  Provided for compatibility; prefer multi_dot.
 *  Precision: low.
 *  Errors: ValueError for an empty list; ShapeError unless all are 2-D and their sizes fit;
 *  DtypeError. */
MZ_API Tensor chain_matmul(const std::vector<Tensor>& matrices);

/** Returns the sum of products over labelled dimensions: "bij,bjk->bik" is a batch of matrix
 *  products.
 *  A letter names a dimension; `...` stands for the dimensions without a letter, which broadcast.
 *  Letters that are missing in the result are summed over. Without `->` the result has the
 *  dimensions of `...`, then the letters that occur once, in alphabetical order (capitals first). A
 *  letter repeated in one operand takes its diagonal. Factors are multiplied from left to right.
 *  Integers stay integers.
 *  Shape: sizes under one letter are equal or 1.
 *  Precision: low; a product of two factors accumulates in f32 and rounds once. Products of more
 *  than two factors are computed in f32 throughout.
 *  Gradient: the derivative.
 *  Errors: ValueError for an invalid equation; ShapeError; DtypeError unless all operands have one
 *  dtype, not bool. */
MZ_API Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

/** Returns the product of two or more matrices, computed in the order that takes the fewest
 *  multiplications. The first may be a 1-D row and the last a 1-D column; the result lacks that
 *  dimension. Integers stay integers.
 *  Precision: low; each product as mm.
 *  Gradient: as for the chain of mm.
 *  Errors: ValueError for fewer than two tensors; ShapeError; DtypeError unless all have one dtype,
 *  not bool.
 *  Source: Cormen et al., Introduction to Algorithms (matrix-chain multiplication). */
MZ_API Tensor multi_dot(const std::vector<Tensor>& tensors);

/** The dimensions of two tensors that tensordot pairs. */
struct TensordotDims {
  /** Pairs the last `dims` dimensions of the first tensor with the first `dims` of the second. */
  TensordotDims(std::int64_t dims = 2) : count(dims) {}  // NOLINT: implicit on purpose
  /** Pairs dimension first[i] of the first tensor with dimension second[i] of the second. */
  TensordotDims(std::vector<std::int64_t> first, std::vector<std::int64_t> second)
      : a(std::move(first)), b(std::move(second)) {}

  std::optional<std::int64_t> count = {};  // number of pairs, in the first form
  std::vector<std::int64_t> a = {},        // dimensions of the first tensor, in the second form
      b = {};                              // dimensions of the second tensor, as many as in a
};

/** Returns the sum of products over pairs of dimensions. 0 pairs give the outer product. Integers
 *  stay integers.
 *  Shape: paired sizes are equal; the result has the other dimensions of a, then those of b.
 *  Precision: promote: computed in the promoted dtype, with casts on or off; f32 accumulation, one
 *  rounding.
 *  Gradient: the tensordot of g with the other operand.
 *  Errors: ValueError, IndexError and ShapeError for dimensions that do not pair up; DtypeError for
 *  bools and for integers of different dtypes. */
MZ_API Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotDims& dims = {});

}  // namespace mezzo

namespace mezzo::op {

// All are composites of public ops.

/** x1^T W x2 + b. Operands: x1 [.., n], x2 [.., m], weight [out, n, m], bias [out] or undefined. */
struct Bilinear {
  static constexpr OpTraits traits{.name = "bilinear",
                                   .precision = Precision::promote,
                                   .summary = "x1^T W x2 + b for each matrix of the weight",
                                   .inputs = 4,
                                   .integers = Integers::keep};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** multi_dot for matrices only; a single matrix is returned unchanged. */
struct ChainMatmul {
  static constexpr OpTraits traits{.name = "chain_matmul",
                                   .precision = Precision::low,
                                   .summary = "product of a list of matrices",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** Sum of products over labelled dimensions. */
struct Einsum {
  static constexpr OpTraits traits{.name = "einsum",
                                   .precision = Precision::low,
                                   .summary = "sum of products over labelled dimensions",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep};
  struct Attrs {
    std::string equation;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Product of a list of matrices in the cheapest order. The first operand may be a vector taken as
 *  a row, the last one a vector taken as a column. */
struct MultiDot {
  static constexpr OpTraits traits{.name = "multi_dot",
                                   .precision = Precision::low,
                                   .summary = "product of a list of matrices in the cheapest order",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** Sum of products over dimensions `a` of the first operand and `b` of the second. If `count` is
 *  set, the last `count` dimensions of the first and the first `count` of the second are used. */
struct Tensordot {
  static constexpr OpTraits traits{.name = "tensordot",
                                   .precision = Precision::promote,
                                   .summary = "sum of products over pairs of dimensions",
                                   .inputs = 2,
                                   .integers = Integers::keep};
  struct Attrs {
    std::optional<std::int64_t> count = {};
    std::vector<std::int64_t> a = {}, b = {};
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using ContractionOps = type_list<Bilinear, ChainMatmul, Einsum, MultiDot, Tensordot>;

}  // namespace mezzo::op
