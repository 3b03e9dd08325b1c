#include "dropout.h"

#include "../autograd/ops/random.h"
#include "../tensor/text.h"

namespace mezzo::nn {

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0 && p <= 1))
    fail<ValueError>("Dropout", {.what = "p is no probability", .got = str(p), .expected = "0..1"});
  set_summary(str(p));
}

Tensor Dropout::forward(const Tensor& x) const { return dropout(x, {.p = p_, .training = training()}); }

}  // namespace mezzo::nn
