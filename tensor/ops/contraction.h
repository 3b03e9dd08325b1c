// Products over several dimensions and of several factors: bilinear, chain_matmul, einsum, multi_dot, tensordot. All written in public ops.
// Sees: op.h.
// Read next: matmul.h, ../../autograd/rules/contraction.cpp, ../../autograd/rules/einsum.cpp (the bodies).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../op.h"

namespace mezzo::op {

/** Operands x1 [.., n], x2 [.., m], weight [out, n, m], bias [out] or undefined. */
struct Bilinear {
  static constexpr OpTraits traits{.name = "bilinear",
                                   .precision = Precision::widest,
                                   .summary = "x1^T W x2 + b for each matrix of the weight",
                                   .inputs = 4,
                                   .integers = Integers::keep};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** multi_dot of matrices alone; one is returned as it is. */
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

/** Product of a list of matrices in the cheapest order; the first may be a row and the last a column given as vectors. */
struct MultiDot {
  static constexpr OpTraits traits{.name = "multi_dot",
                                   .precision = Precision::low,
                                   .summary = "product of a list of matrices in the cheapest order",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** Sum of products over dimensions `a` of the first and `b` of the second operand; without them over the last and first `count`. */
struct Tensordot {
  static constexpr OpTraits traits{.name = "tensordot",
                                   .precision = Precision::widest,
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
