// Distances between all pairs of vectors: cdist, pdist, and the internal ops they are made of.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** When cdist computes 2-norms as sqrt(|a|^2 + |b|^2 - 2 a.b) from one matrix product. That is
 *  fast, but inexact where a distance is small compared to the lengths of the vectors. */
enum class CdistMode : std::uint8_t {
  use_mm_if_large,  // with more than 25 vectors on either side
  use_mm,           // always
  do_not_use_mm,    // never
};

/** Options of cdist. */
struct CdistOptions {
  double p = 2;  // order of the norm: 0 or more, infinity included
  CdistMode compute_mode = CdistMode::use_mm_if_large;  // when to use a matrix product
};

/** Returns the p-norms of a - b for all pairs of rows of two matrices.
 *  Shape: a (..,P,M) and b (..,R,M) give (..,P,R); batch dimensions broadcast.
 *  Precision: f32; computed in f32.
 *  Gradient: as vector_norm, 0 at distance 0. For p = inf it goes to every coordinate that attains
 *  the distance.
 *  Errors: ShapeError; DtypeError for integers or different dtypes; ValueError for p < 0. */
MZ_API Tensor cdist(const Tensor& a, const Tensor& b, const CdistOptions& options = {});

/** Options of pdist. */
struct PdistOptions {
  double p = 2;  // order of the norm: 0 or more, infinity included
};

/** Returns the p-norms of the differences of all pairs of rows i < j, in row order.
 *  Shape: x (N,M) gives (N(N-1)/2).
 *  Precision: f32; computed in f32.
 *  Gradient: as cdist.
 *  Errors: ShapeError unless x is a matrix; DtypeError for integers; ValueError for p < 0. */
MZ_API Tensor pdist(const Tensor& x, const PdistOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** p-norms of x1 - x2 for all pairs of rows. Operands: x1 (..,P,M), x2 (..,R,M), one floating
 *  dtype, batches broadcast. */
struct Cdist {
  static constexpr OpTraits traits{.name = "cdist",
                                   .precision = Precision::f32,
                                   .summary = "distances between all rows of two matrices",
                                   .inputs = 2};
  struct Attrs {
    double p = 2;
    /** 2-norms are computed with matrix products, |a|^2 + |b|^2 - 2 a.b, if either operand has more
     *  rows than this. */
    std::int64_t mm_above = 25;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** p-norms of the differences of all pairs of rows i < j of one matrix. */
struct Pdist {
  static constexpr OpTraits traits{
      .name = "pdist",
      .precision = Precision::f32,
      .summary = "distances between the rows of a matrix, each pair once"};
  struct Attrs {
    double p = 2;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

// Internal ops. Their operands have the compute dtype, f32 or f64.

/** Distances [B,P,R] from x1 [B,P,M] and x2 [B,R,M]. */
struct PairDistance {
  static constexpr OpTraits traits{
      .name = "pair_distance",
      .precision = Precision::match,
      .inputs = 2,
      .needs = {input(0) | input(1) | output(0), input(0) | input(1) | output(0)},
      .internal = true};
  using Attrs = Pdist::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of x1. Operands: g, y, x1, x2. The gradient of x2 is the same op with x1 and x2 swapped
 *  and g, y transposed. */
struct PairDistanceBackward {
  static constexpr OpTraits traits{.name = "pair_distance_backward",
                                   .precision = Precision::match,
                                   .inputs = 4,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = Pdist::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Distances [n(n-1)/2] from x [n,M]: pairs i < j in row order. */
struct TriangleDistance {
  static constexpr OpTraits traits{.name = "triangle_distance",
                                   .precision = Precision::match,
                                   .needs = {input(0) | output(0)},
                                   .internal = true};
  using Attrs = Pdist::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of x. Operands: g, y, x. */
struct TriangleDistanceBackward {
  static constexpr OpTraits traits{.name = "triangle_distance_backward",
                                   .precision = Precision::match,
                                   .inputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = Pdist::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using PairDistanceOps = type_list<Cdist, PairDistance, PairDistanceBackward, Pdist,
                                  TriangleDistance, TriangleDistanceBackward>;

}  // namespace mezzo::op
