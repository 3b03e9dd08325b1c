#include "local_response_norm.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/local_response_norm.h"

namespace mezzo {

Tensor local_response_norm(const Tensor& x, std::int64_t size,
                           const LocalResponseNormOptions& options) {
  return apply_with<op::LocalResponseNorm>({size, options.alpha, options.beta, options.k}, x);
}

}  // namespace mezzo
