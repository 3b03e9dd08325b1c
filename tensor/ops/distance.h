// Ops made of norms: normalisation, norms of matrices, distances and angles between vectors.
// See also: pair_distance.h (distances between all pairs).
#pragma once

#include "../core/op.h"

namespace mezzo::op {

/** Cosine of the angle between vectors along a dimension; each length is at least eps. */
struct CosineSimilarity {
  static constexpr OpTraits traits{
      .name = "cosine_similarity",
      .precision = Precision::f32,
      .summary = "cosine of the angle between vectors along a dimension",
      .inputs = 2};
  struct Attrs {
    std::int64_t dim = 1;
    double eps = 1e-8;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** p-norm of a - b over all elements. */
struct Dist {
  static constexpr OpTraits traits{.name = "dist",
                                   .precision = Precision::f32,
                                   .summary = "p-norm of the difference of two tensors",
                                   .inputs = 2};
  struct Attrs {
    double p = 2;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Norm of the matrices in two dimensions. */
struct MatrixNorm {
  static constexpr OpTraits traits{.name = "matrix_norm",
                                   .precision = Precision::f32,
                                   .summary = "norm of the matrices in two dimensions"};
  struct Attrs {
    bool frobenius = true;
    bool nuclear = false;
    double order =
        2;  // used unless one is set: +-1 column sums, +-inf row sums, +-2 singular values
    std::int64_t row_dim = -2, column_dim = -1;
    bool keepdim = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** x divided by its p-norm over dimensions; the divisor is at least eps. */
struct Normalize {
  static constexpr OpTraits traits{.name = "normalize",
                                   .precision = Precision::f32,
                                   .summary = "division by the p-norm over dimensions"};
  struct Attrs {
    double p = 2;
    std::uint32_t dims = 0;
    double eps = 1e-12;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** p-norm of a - b + eps over the last dimension. */
struct PairwiseDistance {
  static constexpr OpTraits traits{.name = "pairwise_distance",
                                   .precision = Precision::f32,
                                   .summary = "p-norm of the difference of each pair of vectors",
                                   .inputs = 2};
  struct Attrs {
    double p = 2;
    double eps = 1e-6;
    bool keepdim = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using DistanceOps = type_list<CosineSimilarity, Dist, MatrixNorm, Normalize, PairwiseDistance>;

}  // namespace mezzo::op
