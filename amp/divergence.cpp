#include "divergence.h"

#include <algorithm>
#include <cmath>

#include "../tensor/text.h"

namespace mezzo::amp {

namespace {

/** "[3,17]" */
std::string place_in(const Shape& shape, std::int64_t index) {
  Shape place = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    place[d] = index % shape[d];
    index /= shape[d];
  }
  return str(place);
}

/** "nan at [3,17]", or empty where every element is finite. */
std::string first_non_finite(const Tensor& grad) {
  const std::vector<double> values = grad.to_vector<double>();
  const auto bad = std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
  if (bad == values.end()) return {};
  const std::string_view value = std::isnan(*bad) ? "nan" : *bad > 0 ? "inf" : "-inf";
  return str(value, " at ", place_in(grad.shape(), bad - values.begin()));
}

std::string culprit(const optim::Optimizer& optimizer,
                    const std::function<std::string(const Tensor&)>& name_of) {
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      const Tensor grad = slot.param.grad();
      const std::string where = grad.defined() ? first_non_finite(grad) : "";
      if (!where.empty()) return str(where, " of ", name_of(slot.param), " (first non-finite gradient)");
    }
  return "no gradient that is non-finite any more";
}

}  // namespace

void fail_diverged(optim::Optimizer& optimizer, const std::string& who, double loss_scale,
                   const std::function<std::string(const Tensor& param)>& name_of) {
  const std::int64_t count = optimizer.consecutive_skips();
  optimizer.set_consecutive_skips(0);
  fail<DivergenceError>(str("step(", who, ")"),
                        {.what = str(count, " consecutive steps skipped"),
                         .got = str(culprit(optimizer, name_of), ", loss scale ", loss_scale),
                         .expected = "finite",
                         .hint = "lower the learning rate"});
}

}  // namespace mezzo::amp
