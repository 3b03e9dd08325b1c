// Products over several dimensions and of several factors, and the vector product.
// Sees: tensor.
// Read next: matmul.h, ../../tensor/ops/contraction.h, ../../tensor/ops/cross.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** y_o = x1^T W_o x2 + b_o. Shape: x1 [..., n], x2 [..., m], weight [out, n, m], bias [out] or undefined give [..., out].
 *  Precision: widest, the bias included; f32 inside (f64 when one is f64), one rounding.
 *  Gradient: by calculus, each in its operand's dtype.   Errors: ShapeError, also where leading dimensions differ; DtypeError. */
MZ_API Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});

/** Product of a list of matrices, as multi_dot; a single one is returned as it is. Kept for programs that use it: prefer multi_dot.
 *  Precision: low.   Errors: ValueError for an empty list, ShapeError unless all are 2-D and fit, DtypeError. */
MZ_API Tensor chain_matmul(const std::vector<Tensor>& matrices);

struct CrossOptions {
  std::int64_t dim = -1;  // of size 3, counted in the result
};

/** Vector product along a dimension of size 3; the other dimensions broadcast.
 *  Precision: widest; integers stay.   Gradient: b x g and g x a.   Errors: ShapeError, IndexError for a bad dimension, DtypeError for bool. */
MZ_API Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& options = {});

/** Sum of products over labelled dimensions: "bij,bjk->bik" is a batch of matrix products. A letter names a dimension, `...` the dimensions
 *  that have no letter, which broadcast. Letters that the result lacks are summed over; without `->` the result has the dimensions of `...`,
 *  then the letters that occur once, in alphabetical order (capitals first). A letter repeated in one operand takes its diagonal.
 *  Factors are multiplied from left to right.
 *  Shape: sizes under one letter are equal or 1.   Precision: low; one product of two factors accumulates in f32 and rounds once, anything
 *  longer runs in f32 as a whole.   Gradient: by calculus.
 *  Errors: ValueError for an equation that cannot be read, ShapeError, DtypeError unless all
 *  have one dtype, not bool; integers stay. */
MZ_API Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

/** Product of two or more matrices in the order that takes the fewest multiplications. The first may be a row and the last a column given as
 *  vectors; that dimension is then gone from the result.
 *  Precision: low, each product as mm.   Gradient: of the chain of mm.
 *  Errors: ValueError for fewer than two, ShapeError, DtypeError unless all have one dtype, not
 *  bool; integers stay.
 *  Source: Cormen et al., Introduction to Algorithms (matrix-chain multiplication). */
MZ_API Tensor multi_dot(const std::vector<Tensor>& tensors);

/** Which dimensions of two tensors meet. */
struct TensordotDims {
  /** The last `dims` of the first and the first `dims` of the second. */
  TensordotDims(std::int64_t dims = 2) : count(dims) {}  // NOLINT: a number stands for itself
  /** Those of the first and, pair by pair, those of the second. */
  TensordotDims(std::vector<std::int64_t> first, std::vector<std::int64_t> second)
      : a(std::move(first)), b(std::move(second)) {}

  std::optional<std::int64_t> count = {};
  std::vector<std::int64_t> a = {}, b = {};
};

/** Sum of products over pairs of dimensions; the result has the other dimensions of a, then those of b. 0 pairs give the outer product.
 *  Shape: paired sizes are equal.   Precision: widest: runs in the promoted dtype, with or without autocast; f32 accumulation, one rounding.
 *  Gradient: tensordots of g with the other factor.
 *  Errors: ValueError, IndexError and ShapeError for dimensions that do not pair up, DtypeError for
 *  bools and for integers of different dtypes; integers stay. */
MZ_API Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotDims& dims = {});

}  // namespace mezzo
