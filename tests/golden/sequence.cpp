// Golden calls: recurrent layers, attention.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

void add_attention() {
  GOLDEN("scaled_dot_product_attention", scaled_dot_product_attention(x[0], x[1], x[2]));
  GOLDEN("scaled_dot_product_attention/scale",
         scaled_dot_product_attention(x[0], x[1], x[2], {.scale = 0.3}));
  GOLDEN("scaled_dot_product_attention/mask",
         scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}));
  GOLDEN("scaled_dot_product_attention/bias",
         scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]}));
  GOLDEN("scaled_dot_product_attention/causal",
         scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true}));
}

/** Returns the weights of layers and directions, `count` tensors each, from operand `first` on. */
std::vector<RecurrentWeights> weights(const Tensors& x, std::size_t first, std::size_t count = 4) {
  std::vector<RecurrentWeights> all;
  for (std::size_t at = first; at < x.size(); at += count) {
    RecurrentWeights w{.weight_ih = x[at], .weight_hh = x[at + 1]};
    if (count >= 4) w.bias_ih = x[at + 2], w.bias_hh = x[at + 3];
    if (count == 5) w.weight_hr = x[at + 4];
    all.push_back(w);
  }
  return all;
}

Tensors list(const RecurrentResult& result) { return {result.output, result.h}; }
Tensors list(const LstmResult& result) { return {result.output, result.h, result.c}; }
Tensors list(const LstmState& state) { return {state.h, state.c}; }

const RecurrentOptions kBothDirections{.batch_first = true, .bidirectional = true};

#define GOLDEN_RECURRENT(op)                                                    \
  GOLDEN(#op "_cell", op##_cell(x[0], x[1], weights(x, 2)[0]));                 \
  GOLDEN(#op "_cell/without bias", op##_cell(x[0], x[1], weights(x, 2, 2)[0])); \
  GOLDEN(#op, list(op(x[0], x[1], weights(x, 2))));                             \
  GOLDEN(#op "/two layers, both directions", list(op(x[0], x[1], weights(x, 2), kBothDirections)))

void add_recurrent() {
  GOLDEN_RECURRENT(rnn_tanh);
  GOLDEN_RECURRENT(rnn_relu);
  GOLDEN_RECURRENT(gru);
  GOLDEN("lstm_cell", list(lstm_cell(x[0], {x[1], x[2]}, weights(x, 3)[0])));
  GOLDEN("lstm", list(lstm(x[0], {x[1], x[2]}, weights(x, 3))));
  GOLDEN("lstm/two layers, both directions",
         list(lstm(x[0], {x[1], x[2]}, weights(x, 3), kBothDirections)));
  GOLDEN("lstm/projection", list(lstm(x[0], {x[1], x[2]}, weights(x, 3, 5))));
}

const Registrar additions([] {
  add_attention();
  add_recurrent();
});

}  // namespace
