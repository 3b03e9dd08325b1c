// Gradients and public functions of the ops in distance.h.
#include "distance.h"

#include <cmath>
#include <limits>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../linalg/linalg.h"
#include "../norm/line_scale.h"
#include "../reduce/reduce.h"
#include "../reduce/renorm.h"
#include "../reduce/statistics.h"
#include "../require.h"
#include "../wide.h"
#include "pair_distance.h"

namespace mezzo::op {

namespace {

/** Two floating-point operands in the dtype of the arithmetic on their common dtype. */
struct Pair {
  Tensor a, b;
  Shape shape;  // the broadcast shape
  DType dtype;  // of the result
};

Pair pair_of(std::string_view op, Inputs in) {
  require_floating_operands(op, in);
  const DType dtype = promoted_dtype(in), arithmetic = compute_dtype(dtype);
  return {in[0].to(arithmetic), in[1].to(arithmetic),
          broadcast_shapes(in[0].shape(), in[1].shape(), op.data()), dtype};
}

Tensor p_norm(const Tensor& x, double p, std::uint32_t dims, bool keepdim) {
  return apply_with<VectorNorm>({.p = p, .dims = dims, .keepdim = keepdim}, x);
}

std::uint32_t mask_of(int dim, int rank) { return rank == 0 ? 0 : 1u << dim; }

/** Returns max(length, eps); nan stays nan. */
Tensor at_least(const Tensor& length, double eps) { return clamp(length, {.min = eps}); }

/** Returns the largest or smallest sum of |x| over `summed`, of one sum for each index along
 *  `ordered`. */
Tensor extreme_sum(const Tensor& x, int summed, int ordered, bool greatest, bool keepdim) {
  if (x.shape()[ordered] == 0)
    fail<ShapeError>(MatrixNorm::traits.name,
                     {.what = "the extreme of an empty dimension is undefined",
                      .got = str(x),
                      .expected = str("at least one element along dimension ", ordered)});
  const Tensor sums = p_norm(x, 1, 1u << summed, true);
  const Tensor extreme =
      greatest ? amax(sums, ordered, {.keepdim = true}) : amin(sums, ordered, {.keepdim = true});
  const ReduceAttrs both{1u << summed | 1u << ordered, keepdim};
  return extreme.view(reduced_shape(x.shape(), both));
}

/** Returns the sum of the singular values for order 0, else their largest or smallest. */
Tensor norm_of_singular_values(const Tensor& x, int row, int column, double order, bool keepdim) {
  const std::int64_t from[] = {row, column}, last[] = {-2, -1};
  const Tensor values = linalg::svdvals(x.movedim(from, last));
  if (values.size(-1) == 0 && order != 0)
    fail<ShapeError>(MatrixNorm::traits.name,
                     {.what = "the extreme of no singular values is undefined",
                      .got = str(x),
                      .expected = "matrices with elements"});
  const Tensor norm = order == 0  ? sum(values, -1)
                      : order > 0 ? amax(values, -1)
                                  : amin(values, -1);
  return norm.view(reduced_shape(x.shape(), {1u << row | 1u << column, keepdim}));
}

}  // namespace

std::vector<Tensor> CosineSimilarity::composite(Inputs in, const Attrs& attrs) {
  const auto [a, b, shape, dtype] = pair_of(traits.name, in);
  const int dim = wrap_dim(attrs.dim, shape.rank(), traits.name.data());
  const std::uint32_t dims = mask_of(dim, shape.rank());
  // Both are expanded first, because one may be broadcast along the dimension.
  const Tensor u = a.expand(shape), v = b.expand(shape);
  const Tensor u_length = at_least(p_norm(u, 2, dims, true), attrs.eps);
  const Tensor v_length = at_least(p_norm(v, 2, dims, true), attrs.eps);
  // Scaled, so that products of huge or tiny numbers stay in range.
  const Tensor u_scale = scale_of_sizes(u_length), v_scale = scale_of_sizes(v_length);
  const Tensor product = sum(scaled(u, u_scale) * scaled(v, v_scale), dim, {.keepdim = true});
  const Tensor cosine = product / (scaled(u_length, u_scale) * scaled(v_length, v_scale));
  return {cosine.view(reduced_shape(shape, {dims, false})).to(dtype)};
}

std::vector<Tensor> Dist::composite(Inputs in, const Attrs& attrs) {
  const auto [a, b, shape, dtype] = pair_of(traits.name, in);
  return {p_norm(a - b, attrs.p, (1u << shape.rank()) - 1, false).to(dtype)};
}

std::vector<Tensor> MatrixNorm::composite(Inputs in, const Attrs& attrs) {
  require_floating_operands(traits.name, in);
  const Tensor x = wide(in[0]);
  if (x.dim() < 2)
    fail<ShapeError>(traits.name, {.what = "a matrix has two dimensions", .got = str(in[0])});
  const int row = wrap_dim(attrs.row_dim, x.dim(), traits.name.data());
  const int column = wrap_dim(attrs.column_dim, x.dim(), traits.name.data());
  if (row == column)
    fail<IndexError>(traits.name,
                     {.what = "dimension named twice",
                      .got = str(attrs.row_dim, " and ", attrs.column_dim, " of ", in[0]),
                      .expected = "two dimensions"});
  const double size = std::abs(attrs.order);
  const bool singular = attrs.nuclear || size == 2;
  if (!attrs.frobenius && !singular && size != 1 && !std::isinf(size))
    fail<ValueError>(traits.name, {.what = "no matrix norm of this order",
                                   .got = str(attrs.order),
                                   .expected = "\"fro\", \"nuc\", 1, -1, 2, -2, inf or -inf"});
  Tensor y;
  if (attrs.frobenius)
    y = p_norm(x, 2, 1u << row | 1u << column, attrs.keepdim);
  else if (singular)
    y = norm_of_singular_values(x, row, column, attrs.nuclear ? 0 : attrs.order, attrs.keepdim);
  else if (size == 1)
    y = extreme_sum(x, row, column, attrs.order > 0, attrs.keepdim);
  else
    y = extreme_sum(x, column, row, attrs.order > 0, attrs.keepdim);
  return {y.to(in[0].dtype())};
}

std::vector<Tensor> Normalize::composite(Inputs in, const Attrs& attrs) {
  require_floating_operands(traits.name, in);
  const Tensor x = wide(in[0]);
  return {(x / at_least(p_norm(x, attrs.p, attrs.dims, true), attrs.eps)).to(in[0].dtype())};
}

std::vector<Tensor> PairwiseDistance::composite(Inputs in, const Attrs& attrs) {
  const auto [a, b, shape, dtype] = pair_of(traits.name, in);
  if (shape.rank() == 0)
    fail<ShapeError>(traits.name,
                     {.what = "an operand is 0-dim", .got = str(in), .expected = "(..,D) each"});
  return {p_norm(a - b + attrs.eps, attrs.p, 1u << (shape.rank() - 1), attrs.keepdim).to(dtype)};
}

std::span<OpInfo* const> distance_ops() { return infos_of(DistanceOps{}); }

}  // namespace mezzo::op

namespace mezzo {

MatrixOrder::MatrixOrder(const char* order)
    : frobenius(std::string_view(order) == "fro"), nuclear(std::string_view(order) == "nuc") {
  if (!frobenius && !nuclear)
    fail<ValueError>("matrix_norm",
                     {.what = "no norm of this name",
                      .got = str("\"", order, "\""),
                      .expected = "\"fro\", \"nuc\", or 1, -1, 2, -2, inf, -inf as a number"});
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  return apply_with<op::CosineSimilarity>({options.dim, options.eps}, a, b);
}

Tensor dist(const Tensor& a, const Tensor& b, const DistOptions& options) {
  return apply_with<op::Dist>({options.p}, a, b);
}

Tensor matrix_norm(const Tensor& x, MatrixOrder ord, const MatrixNormOptions& options) {
  const op::MatrixNorm::Attrs attrs{ord.frobenius,  ord.nuclear,    ord.number,
                                    options.dim[0], options.dim[1], options.keepdim};
  if (!options.dtype) return apply_with<op::MatrixNorm>(attrs, x);
  const CastScope no_casts(nullptr);
  return apply_with<op::MatrixNorm>(attrs, x.to(*options.dtype));
}

Tensor normalize(const Tensor& x, const NormalizeOptions& options) {
  const std::uint32_t dims = dim_mask(options.dim, x.dim(), "normalize");
  return apply_with<op::Normalize>({options.p, dims, options.eps}, x);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& options) {
  return apply_with<op::PairwiseDistance>({options.p, options.eps, options.keepdim}, a, b);
}

}  // namespace mezzo
