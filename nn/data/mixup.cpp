#include "mixup.h"

#include <cmath>

#include "../../tensor/ops/ops.h"
#include "../../tensor/text/text.h"
#include "random_draw.h"

namespace mezzo::data {

namespace {

/** Returns the logarithm of a number with the gamma distribution, which for a small shape may be
 *  below the least double. Source: Marsaglia, Tsang, ACM TOMS 26 (2000). */
double log_gamma_number(Draw& draw, double shape) {
  if (shape < 1)
    return log_gamma_number(draw, shape + 1) + std::log(1 - draw.uniform(0, 1)) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw.normals().first, root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - draw.uniform(0, 1)) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

double beta_number(Draw& draw, double alpha) {
  const double a = log_gamma_number(draw, alpha), b = log_gamma_number(draw, alpha);
  return 1 / (1 + std::exp(b - a));
}

}  // namespace

Batch MixUp::operator()(const Batch& batch) const {
  constexpr const char* op = "MixUp";
  if (!(alpha > 0) || !std::isfinite(alpha))
    fail<ValueError>(op, {.what = "invalid alpha", .got = str(alpha), .expected = "above 0"});
  if (num_classes < 0)
    fail<ValueError>(
        op, {.what = "invalid num_classes", .got = str(num_classes), .expected = "at least 0"});
  if (!is_floating(batch.x.dtype()))
    fail<DtypeError>(op, {.what = "x is not floating-point", .got = str(batch.x)});
  Tensor target = batch.y;
  if (!is_floating(target.dtype())) {
    if (num_classes == 0)
      fail<DtypeError>(op,
                       {.what = "targets that are classes need num_classes", .got = str(batch.y)});
    if (target.dim() != 1)
      fail<ShapeError>(op, {.what = "wrong targets", .got = str(batch.y), .expected = "[N]"});
    target = one_hot(target.to(i64), num_classes).to(batch.x.dtype());
  }
  Draw draw;
  const double lambda = beta_number(draw, alpha);
  const auto blended = [&](const Tensor& x) {
    return x.size(0) == 0 ? x : x * lambda + roll(x, {1}, {0}) * (1 - lambda);
  };
  return {blended(batch.x), blended(target)};
}

}  // namespace mezzo::data
