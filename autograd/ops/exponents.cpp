#include "exponents.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/exponents.h"

namespace mezzo {

static_assert(ExponentHistogram::kLeast == op::kLeastExponent &&
              ExponentHistogram::kGreatest == op::kGreatestExponent);

ExponentHistogram exponent_histogram(const Tensor& x) {
  std::array<Tensor, 2> results = apply_all<op::ExponentHistogram>({}, x);
  return {std::move(results[0]), std::move(results[1])};
}

ChangeHistograms change_histograms(const Tensor& before, const Tensor& after) {
  std::array<Tensor, 4> results = apply_all<op::ChangeHistograms>({}, before, after);
  return {.change = {std::move(results[0]), std::move(results[1])},
          .ratio = {std::move(results[2]), std::move(results[3])}};
}

}  // namespace mezzo
