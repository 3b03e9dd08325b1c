// Matrix norms, normalisation by a norm, and distances and angles between vectors in pairs. ops.h
// explains the notation and the precision tags. See also: pair_distance.h (all against all).
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string_view>

#include "../../core/op.h"
#include "../reduce/reduce.h"

namespace mezzo {

/** Options of cosine_similarity. */
struct CosineSimilarityOptions {
  std::int64_t dim = 1;  // the dimension of the vectors
  double eps = 1e-8;     // lower bound of either length
};

/** Returns sum(a * b) / (max(|a|, eps) * max(|b|, eps)) along a dimension of the shape that a and b
 *  broadcast to. Unlike PyTorch, vectors whose products overflow are scaled.
 *  Shape: that shape without the dimension.
 *  Precision: f32; computed in f32, or f64 with an f64 operand.
 *  Gradient: through both lengths; a length below eps counts as a constant.
 *  Errors: ShapeError where shapes do not broadcast; IndexError for a bad dimension; DtypeError for
 *  integers. */
MZ_API Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                                const CosineSimilarityOptions& options = {});

/** Options of dist. */
struct DistOptions {
  double p = 2;  // order of the norm: any number, infinities included
};

/** Returns vector_norm(a - b) over all elements; a and b broadcast.
 *  Shape: [].
 *  Precision: f32; computed in f32, or f64 with an f64 operand.
 *  Gradient: as vector_norm.
 *  Errors: ShapeError where shapes do not broadcast; DtypeError for integers. */
MZ_API Tensor dist(const Tensor& a, const Tensor& b, const DistOptions& options = {});

/** The order of a matrix norm: "fro", "nuc", or a number. */
struct MatrixOrder {
  bool frobenius = false;  // "fro": the 2-norm of all elements
  bool nuclear = false;    // "nuc": the sum of the singular values
  double number = 2;       // used unless a name is given; matrix_norm takes 1, -1, 2, -2, inf, -inf
  /** Takes a number: 1 or -1 for sums over columns, inf or -inf for sums over rows, 2 or -2 for
   *  singular values. */
  template <class T>
  requires(std::integral<T> || std::floating_point<T>)
  MatrixOrder(T order)  // NOLINT: implicit on purpose
      : number(static_cast<double>(order)) {}
  /** Takes "fro" or "nuc". Errors: ValueError for any other name. */
  MZ_API MatrixOrder(const char* order);  // NOLINT: implicit on purpose
};

/** Options of matrix_norm. */
struct MatrixNormOptions {
  std::array<std::int64_t, 2> dim = {-2, -1};  // the dimensions of rows and of columns
  bool keepdim = false;                        // keep the two dimensions, with size 1
  std::optional<DType> dtype = {};             // convert the input to it first
};

/** Returns the norm of the matrices in two dimensions: "fro" is the 2-norm of all their elements; 1
 *  and -1 the largest and smallest sum of |x| over a column; inf and -inf over a row; 2 and -2 the
 *  largest and smallest singular value; "nuc" the sum of the singular values. Singular values are
 *  computed as in linalg::svdvals.
 *  Shape: x's without the two dimensions (with size 1 if keepdim).
 *  Precision: f32.
 *  Gradient: for "fro" as vector_norm; for singular values as svdvals; else sgn(x) * g on the
 * chosen columns (rows). Ties share it equally. Errors: ValueError for another order, and for
 * singular values of nan or infinity; IndexError for bad dimensions; ShapeError for the extreme of
 * an empty dimension; DtypeError for integers. */
MZ_API Tensor matrix_norm(const Tensor& x, MatrixOrder ord = "fro",
                          const MatrixNormOptions& options = {});

/** Options of normalize. */
struct NormalizeOptions {
  double p = 2;        // order of the norm: any number, infinities included
  Dims dim = 1;        // the dimensions of the norm
  double eps = 1e-12;  // lower bound of the divisor
};

/** Returns x / max(vector_norm(x, dim), eps).
 *  Shape: x's.
 *  Precision: f32.
 *  Gradient: through the norm; g / eps where the norm is below eps.
 *  Errors: IndexError; DtypeError for integers. */
MZ_API Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

/** Options of pairwise_distance. */
struct PairwiseDistanceOptions {
  double p = 2;          // order of the norm: any number, infinities included
  double eps = 1e-6;     // added to every difference
  bool keepdim = false;  // keep the last dimension, with size 1
};

/** Returns vector_norm(a - b + eps) over the last dimension; a and b broadcast.
 *  Shape: the broadcast shape without its last dimension.
 *  Precision: f32; computed in f32, or f64 with an f64 operand.
 *  Gradient: as vector_norm.
 *  Errors: ShapeError where shapes do not broadcast or both are 0-dim; DtypeError for integers. */
MZ_API Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                                const PairwiseDistanceOptions& options = {});

}  // namespace mezzo

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
