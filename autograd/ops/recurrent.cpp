#include "recurrent.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/recurrent.h"

namespace mezzo {

namespace {

/** Runs the op of a cell on x, h, c and the weights. */
template <class Op>
std::array<Tensor, Op::traits.outputs> cell(const Tensor& x, const LstmState& state,
                                            const RecurrentWeights& w) {
  Tensor in[] = {x, state.h, state.c, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, w.weight_hr};
  std::array<Tensor, Op::traits.outputs> out;
  constexpr NoAttrs none;
  run(op_info<Op>, in, out, &none);
  return out;
}

template <class Op>
std::array<Tensor, Op::traits.outputs> layers(const Tensor& x, const std::vector<Tensor>& states,
                                              const std::vector<RecurrentWeights>& weights,
                                              const RecurrentOptions& options) {
  std::vector<Tensor> in{x};
  in.insert(in.end(), states.begin(), states.end());
  for (const RecurrentWeights& w : weights)
    in.insert(in.end(), {w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, w.weight_hr});
  const op::RecurrentStackAttrs attrs{options.batch_first, options.bidirectional, options.dropout,
                                      options.lengths};
  std::array<Tensor, Op::traits.outputs> out;
  run(op_info<Op>, in, out, &attrs);
  return out;
}

template <class Op>
RecurrentResult plain_layers(const Tensor& x, const Tensor& h,
                             const std::vector<RecurrentWeights>& weights,
                             const RecurrentOptions& options) {
  auto out = layers<Op>(x, {h}, weights, options);
  return {std::move(out[0]), std::move(out[1])};
}

}  // namespace

Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return cell<op::RnnTanhCell>(x, {h, {}}, weights)[0];
}
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return cell<op::RnnReluCell>(x, {h, {}}, weights)[0];
}
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return cell<op::GruCell>(x, {h, {}}, weights)[0];
}
LstmState lstm_cell(const Tensor& x, const LstmState& state, const RecurrentWeights& weights) {
  auto out = cell<op::LstmCell>(x, state, weights);
  return {std::move(out[0]), std::move(out[1])};
}

RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h,
                         const std::vector<RecurrentWeights>& weights,
                         const RecurrentOptions& options) {
  return plain_layers<op::RnnTanh>(x, h, weights, options);
}
RecurrentResult rnn_relu(const Tensor& x, const Tensor& h,
                         const std::vector<RecurrentWeights>& weights,
                         const RecurrentOptions& options) {
  return plain_layers<op::RnnRelu>(x, h, weights, options);
}
RecurrentResult gru(const Tensor& x, const Tensor& h, const std::vector<RecurrentWeights>& weights,
                    const RecurrentOptions& options) {
  return plain_layers<op::Gru>(x, h, weights, options);
}
LstmResult lstm(const Tensor& x, const LstmState& state,
                const std::vector<RecurrentWeights>& weights, const RecurrentOptions& options) {
  auto out = layers<op::Lstm>(x, {state.h, state.c}, weights, options);
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

}  // namespace mezzo
