// Gradients and public functions of the ops in local_response_norm.h.
#include "local_response_norm.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "../shape/place.h"
#include "../wide.h"
#include "line_scale.h"

namespace mezzo::op {

std::vector<Tensor> LocalResponseNorm::composite(Inputs in, const Attrs& attrs) {
  require_one_floating_dtype(traits.name, in);
  if (in[0].dim() < 3)
    fail<ShapeError>(traits.name, {.what = "wrong number of dimensions",
                                   .got = str(in[0]),
                                   .expected = "at least 3: batch, channels, sizes"});
  if (attrs.size < 1)
    fail<ValueError>(
        traits.name,
        {.what = "size is out of range", .got = str(attrs.size), .expected = "1 or more"});
  if (in[0].numel() == 0) return {in[0].clone()};
  const Tensor x = wide(in[0]);
  // Channels beyond either end are zeros and are counted: the divisor is always `size`.
  std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * (x.dim() - 2)), 0);
  padding.push_back(attrs.size / 2);
  padding.push_back((attrs.size - 1) / 2);
  // Scaled, so that squares of huge numbers do not overflow.
  const Tensor scale = at_most_for(line_scale(x, 1u << 1), attrs.k), line = scaled(x, scale);
  const Tensor neighbours = pad(square(line), padding).unfold(1, attrs.size, 1);
  const Tensor energy = mean(neighbours, -1) * attrs.alpha + attrs.k * (scale * scale);
  const Tensor quotient = line / pow(energy, attrs.beta);
  return {scaled(quotient, pow(scale, 2 * attrs.beta - 1)).to(in[0].dtype())};
}

std::span<OpInfo* const> local_response_norm_ops() { return infos_of(LocalResponseNormOps{}); }

}  // namespace mezzo::op

namespace mezzo {

Tensor local_response_norm(const Tensor& x, std::int64_t size,
                           const LocalResponseNormOptions& options) {
  return apply_with<op::LocalResponseNorm>({size, options.alpha, options.beta, options.k}, x);
}

}  // namespace mezzo
