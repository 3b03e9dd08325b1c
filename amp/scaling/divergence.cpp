#include "divergence.h"

#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"

namespace mezzo::amp {

void fail_diverged(optim::Optimizer& optimizer, const std::string& who, double loss_scale,
                   std::int64_t count) {
  const std::string first_nonfinite = nonfinite_gradient_text(optimizer);
  fail<DivergenceError>(
      str("step(", who, ")"),
      {.what = str(count, " consecutive steps skipped"),
       .got = str(first_nonfinite.empty() ? "no gradient that is still non-finite"
                                          : first_nonfinite + " (first non-finite gradient)",
                  ", loss scale ", loss_scale),
       .expected = "finite",
       .hint = "lower the learning rate or run under amp::detect_nonfinite"});
}

}  // namespace mezzo::amp
