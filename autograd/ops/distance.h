// Norms of matrices, normalising by a norm, distances and angles between vectors, one by one or all pairs.
// Sees: tensor, reduce.h (Dims).
// Read next: ../../tensor/ops/distance.h, ../../tensor/ops/pair_distance.h, ../../tensor/ops/renorm.h.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string_view>

#include "reduce.h"

namespace mezzo {

/** When cdist computes 2-norms as sqrt(|a|^2 + |b|^2 - 2 a.b), from one matrix product: fast, but inexact where a distance is small beside the
 *  vectors' lengths. */
enum class CdistMode : std::uint8_t {
  use_mm_if_large,  // more than 25 vectors on either side
  use_mm,
  do_not_use_mm,
};

struct CdistOptions {
  double p = 2;  // 0 or more; infinity included
  CdistMode compute_mode = CdistMode::use_mm_if_large;
};

/** p-norms of a - b for all pairs of rows of two matrices. Shape: a (..,P,M) and b (..,R,M) give (..,P,R), batches broadcast.
 *  Precision: full; f32 inside. Gradient: as vector_norm, 0 at distance 0; for p = inf to every coordinate as far apart as the vectors.
 *  Errors: ShapeError, DtypeError for integers or different dtypes, ValueError for p < 0. */
MZ_API Tensor cdist(const Tensor& a, const Tensor& b, const CdistOptions& options = {});

struct CosineSimilarityOptions {
  std::int64_t dim = 1;
  double eps = 1e-8;  // the least that either length counts as
};

/** sum(a * b) / (max(|a|, eps) * max(|b|, eps)) along a dimension of the shape that a and b broadcast to.
 *  Shape: that shape without the dimension. Precision: full; f32 inside, f64 beside an f64 operand.
 *  Gradient: through both lengths; a length below eps is a constant.
 *  Errors: ShapeError where shapes do not broadcast, IndexError for a bad dimension, DtypeError for integers. */
MZ_API Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                                const CosineSimilarityOptions& options = {});

struct DistOptions {
  double p = 2;  // any number, infinities included
};

/** vector_norm(a - b) over all elements; a and b broadcast. Shape: []. Precision: full; f32 inside, f64 beside an f64 operand.
 *  Gradient: as vector_norm. Errors: ShapeError where shapes do not broadcast, DtypeError for integers. */
MZ_API Tensor dist(const Tensor& a, const Tensor& b, const DistOptions& options = {});

/** Which norm of a matrix: "fro", or a number. */
struct MatrixOrder {
  bool frobenius = false;
  double number = 2;
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) MatrixOrder(T order)  // NOLINT: stands for a number
      : number(static_cast<double>(order)) {}
  /** Errors: ValueError for any name but "fro". */
  MZ_API MatrixOrder(const char* order);  // NOLINT: stands for a name
};

struct MatrixNormOptions {
  std::array<std::int64_t, 2> dim = {
      -2, -1};  // the matrices' rows are counted along the first, columns along the second
  bool keepdim = false;
  std::optional<DType> dtype = {};  // the input is converted to it first
};

/** Norm of the matrices in two dimensions: "fro" is the 2-norm of all their elements; 1 and -1 the greatest and least sum of |x| over a
 *  column; inf and -inf over a row.
 *  Shape: x's without the two dimensions (of size 1 with keepdim). Precision: full.
 *  Gradient: "fro" as vector_norm; else sgn(x) * g on the chosen columns (rows), shared equally among ties.
 *  Errors: ValueError for another order, IndexError for bad dimensions, ShapeError for the extreme of none, DtypeError for integers. */
MZ_API Tensor matrix_norm(const Tensor& x, MatrixOrder ord = "fro", const MatrixNormOptions& options = {});

struct NormalizeOptions {
  double p = 2;  // any number, infinities included
  Dims dim = 1;
  double eps = 1e-12;  // the least that is divided by
};

/** x / max(vector_norm(x, dim), eps). Shape: any that has the dimensions, kept. Precision: full.
 *  Gradient: through the norm; g / eps where that is below eps. Errors: IndexError, DtypeError for integers. */
MZ_API Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;       // any number, infinities included
  double eps = 1e-6;  // added to every difference
  bool keepdim = false;
};

/** vector_norm(a - b + eps) over the last dimension; a and b broadcast.
 *  Shape: the common one without its last dimension. Precision: full; f32 inside, f64 beside an f64 operand. Gradient: as vector_norm.
 *  Errors: ShapeError where shapes do not broadcast or both are 0-dim, DtypeError for integers. */
MZ_API Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                                const PairwiseDistanceOptions& options = {});

struct PdistOptions {
  double p = 2;  // 0 or more; infinity included
};

/** p-norms of the differences of all rows i < j, in row order. Shape: x (N,M) gives (N(N-1)/2). Precision: full; f32 inside.
 *  Gradient: as cdist. Errors: ShapeError unless x is a matrix, DtypeError for integers, ValueError for p < 0. */
MZ_API Tensor pdist(const Tensor& x, const PdistOptions& options = {});

/** x with each slice along `dim` whose p-norm exceeds maxnorm scaled down to it. Shape: 2 dimensions or more, kept.
 *  Precision: full; f32 inside. Gradient: through the norm for the scaled slices.
 *  Errors: ShapeError, IndexError, DtypeError for integers, ValueError unless p > 0 and maxnorm >= 0. */
MZ_API Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);
MZ_API const Tensor& renorm_(const Tensor& self, double p, std::int64_t dim, double maxnorm);

}  // namespace mezzo
