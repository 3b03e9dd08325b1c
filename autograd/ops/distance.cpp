#include "distance.h"

#include "../../tensor/dispatch.h"
#include "../../tensor/ops/distance.h"
#include "../../tensor/text.h"

namespace mezzo {

MatrixOrder::MatrixOrder(const char* order) : frobenius(true) {
  if (std::string_view(order) != "fro")
    fail<ValueError>("matrix_norm", {.what = "no norm of this name",
                                     .got = str("\"", order, "\""),
                                     .expected = "\"fro\", or 1, -1, inf, -inf as a number"});
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  return apply_with<op::CosineSimilarity>({options.dim, options.eps}, a, b);
}

Tensor dist(const Tensor& a, const Tensor& b, const DistOptions& options) {
  return apply_with<op::Dist>({options.p}, a, b);
}

Tensor matrix_norm(const Tensor& x, MatrixOrder ord, const MatrixNormOptions& options) {
  const op::MatrixNorm::Attrs attrs{ord.frobenius, ord.number, options.dim[0], options.dim[1],
                                    options.keepdim};
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
