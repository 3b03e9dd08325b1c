#include "distance.h"

#include <limits>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/distance.h"
#include "../../tensor/ops/pair_distance.h"
#include "../../tensor/ops/renorm.h"
#include "../../tensor/text/text.h"

namespace mezzo {

MatrixOrder::MatrixOrder(const char* order)
    : frobenius(std::string_view(order) == "fro"), nuclear(std::string_view(order) == "nuc") {
  if (!frobenius && !nuclear)
    fail<ValueError>("matrix_norm",
                     {.what = "no norm of this name",
                      .got = str("\"", order, "\""),
                      .expected = "\"fro\", \"nuc\", or 1, -1, 2, -2, inf, -inf as a number"});
}

Tensor cdist(const Tensor& a, const Tensor& b, const CdistOptions& options) {
  op::Cdist::Attrs attrs{.p = options.p};
  if (options.compute_mode == CdistMode::use_mm) attrs.mm_above = -1;
  if (options.compute_mode == CdistMode::do_not_use_mm)
    attrs.mm_above = std::numeric_limits<std::int64_t>::max();
  return apply_with<op::Cdist>(attrs, a, b);
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

Tensor pdist(const Tensor& x, const PdistOptions& options) {
  return apply_with<op::Pdist>({options.p}, x);
}

Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  return apply_with<op::Renorm>({p, dim, maxnorm}, x);
}

const Tensor& renorm_(const Tensor& self, double p, std::int64_t dim, double maxnorm) {
  return apply_in_place<op::Renorm>({p, dim, maxnorm}, self);
}

}  // namespace mezzo
