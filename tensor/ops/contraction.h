// Products over several dimensions and of several factors: bilinear, chain_matmul, einsum,
// multi_dot, tensordot. All are composites of public ops.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../core/op.h"

namespace mezzo::op {

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
