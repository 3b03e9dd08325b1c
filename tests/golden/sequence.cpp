// Golden calls: recurrent layers, attention.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

const Registrar additions([] {
  GOLDEN("scaled_dot_product_attention", scaled_dot_product_attention(x[0], x[1], x[2]));
  GOLDEN("scaled_dot_product_attention/scale",
         scaled_dot_product_attention(x[0], x[1], x[2], {.scale = 0.3}));
  GOLDEN("scaled_dot_product_attention/mask", scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}));
  GOLDEN("scaled_dot_product_attention/bias", scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}));
  GOLDEN("scaled_dot_product_attention/causal",
         scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true}));
});

}  // namespace
