// multinomial: classes drawn with given probabilities.
#include <limits>

#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../text/text.h"
#include "../elementwise/functions.h"
#include "../elementwise/operators.h"
#include "../elementwise/selection.h"
#include "../index/gather.h"
#include "../reduce/reduce.h"
#include "../reduce/scan.h"
#include "../sort/sort.h"
#include "random.h"

namespace mezzo {

namespace {

void check_call(const Tensor& weights, std::int64_t samples) {
  if (!is_floating(weights.dtype()))
    fail<DtypeError>("multinomial", {.what = "weights are floating-point numbers",
                                     .got = str(weights),
                                     .expected = "a floating dtype",
                                     .hint = "use weights.to(f32)"});
  if (weights.dim() < 1 || weights.dim() > 2 || weights.size(-1) == 0)
    fail<ShapeError>("multinomial", {.what = "there are no classes to draw from",
                                     .got = str(weights),
                                     .expected = "[classes] or [rows, classes]"});
  if (samples < 1)
    fail<ValueError>("multinomial", {.what = "the number of samples is too small",
                                     .got = str(samples, ""),
                                     .expected = "at least 1"});
}

/** Throws unless all weights and their sums are finite, none is negative, and each row has `needed`
 *  positive ones. */
void check_weights(const Tensor& weights, std::int64_t needed) {
  const Tensor valid = all(isfinite(weights) & (weights >= 0)) & all(isfinite(sum(weights, -1)));
  const Tensor enough = all(count_nonzero(weights, -1) >= needed);
  if ((valid & enough).item<bool>()) return;
  if (!valid.item<bool>())
    fail<ValueError>("multinomial",
                     {.what = "a weight is negative, infinite or nan, or the sum is infinite",
                      .got = str(weights),
                      .expected = "finite numbers of at least 0"});
  fail<ValueError>("multinomial", {.what = "a row has too few classes of positive weight",
                                   .got = str(weights),
                                   .expected = str("at least ", needed),
                                   .hint = "without replacement a class is drawn at most once"});
}

/** Returns the classes of the largest ln(weight) + Gumbel variable, as many as `samples`. */
Tensor draw_without_replacement(const Tensor& weights, std::int64_t samples) {
  const Tensor gumbel = -log(-log1p(-rand_like(weights)));
  return topk(where(weights > 0, log(weights) + gumbel, -std::numeric_limits<double>::infinity()),
              samples)
      .indices;
}

/** Returns for each draw the first class whose cumulative weight exceeds it, by bisection. */
Tensor draw_with_replacement(const Tensor& weights, std::int64_t samples) {
  const Tensor cumulative = cumsum(weights, -1);
  const Tensor total = cumulative.narrow(-1, cumulative.size(-1) - 1, 1);
  Shape shape = weights.shape();
  shape[shape.rank() - 1] = samples;
  const Tensor drawn = rand(shape, {.dtype = DType::f64, .device = weights.device()}) * total;
  // The last class of positive weight, in case that a draw is rounded up to the total.
  const Tensor last = sum(cumulative < total, -1, {.keepdim = true});
  Tensor low = zeros(shape, {.dtype = DType::i64, .device = weights.device()});
  Tensor high = low + last;
  for (std::int64_t width = weights.size(-1); width > 0; width /= 2) {
    const Tensor middle = floor_divide(low + high, scalar_operand(std::int64_t{2}));
    const Tensor exceeds = gather(cumulative, -1, middle) > drawn;
    high = where(exceeds, middle, high);
    low = minimum(where(exceeds, low, middle + 1), high);
  }
  return high;
}

}  // namespace

Tensor multinomial(const Tensor& weights, std::int64_t num_samples,
                   const MultinomialOptions& options) {
  const ApiScope called("multinomial");
  const NoGradNoCasts plain_ops;
  check_call(weights, num_samples);
  const bool replacement = options.replacement && num_samples > 1;
  const Tensor wide = weights.detach().to(DType::f64);
  check_weights(wide, replacement ? 1 : num_samples);
  return replacement ? draw_with_replacement(wide, num_samples)
                     : draw_without_replacement(wide, num_samples);
}

}  // namespace mezzo
