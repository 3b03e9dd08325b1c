// Shape rule of exponent_histogram.
#include "exponents.h"

#include "../core/dispatch.h"
#include "../text/text.h"

namespace mezzo::op {

OutSpecs ExponentHistogram::infer(Inputs in, const NoAttrs&) {
  if (!is_floating(in[0].dtype()))
    fail<DtypeError>(
        "exponent_histogram",
        {.what = "expected a floating-point tensor", .got = str(in[0]), .hint = "use x.to(f32)"});
  return {{Shape{kExponentBins}, DType::i64}, {Shape{}, DType::f32}};
}

}  // namespace mezzo::op
