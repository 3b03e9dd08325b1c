// Normalisation by the mean square of neighbouring channels.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

/** x / (k + alpha * mean of x^2 over `size` channels)^beta. */
struct LocalResponseNorm {
  static constexpr OpTraits traits{
      .name = "local_response_norm",
      .precision = Precision::f32,
      .summary = "divides by a power of the mean square of neighbouring channels"};
  struct Attrs {
    std::int64_t size = 1;
    double alpha = 1e-4, beta = 0.75, k = 1;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using LocalResponseNormOps = type_list<LocalResponseNorm>;

}  // namespace mezzo::op
