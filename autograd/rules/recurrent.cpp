// The gradient of a recurrent layer: the fused kernel, or the layer in public ops.
#include "../../tensor/ops/recurrent.h"

#include <algorithm>

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "../ops/activation.h"
#include "../ops/create.h"
#include "../ops/join.h"
#include "../ops/matmul.h"
#include "../ops/operators.h"
#include "../ops/selection.h"
#include "composite_gradient.h"
#include "wide.h"

namespace mezzo::op {

namespace {

/** The state of one layer. */
struct CellState {
  Tensor h, c;
};

/** One layer in public ops, computed in f32 (f64). */
class PlainLayer {
 public:
  PlainLayer(const std::vector<Tensor>& in, const RecurrentAttrs& attrs) : attrs_(attrs) {
    for (std::size_t i = 0; i < in.size(); ++i) in_[i] = wide(in[i]);
    hidden_ = in_[3].size(0) / gates_of(attrs.kind);
  }

  /** Returns y, the last h and the last c. */
  std::vector<Tensor> run() const {
    const Tensor x =
        attrs_.lengths.empty() ? in_[0] : where(running().unsqueeze(2), in_[0], operand(0.0));
    const std::int64_t steps = x.size(0), batch = x.size(1);
    const std::int64_t size = in_[4].size(1);
    const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
    CellState state{in_[1].defined() ? in_[1] : zeros({batch, size}, options),
                    in_[2].defined() ? in_[2] : zeros({batch, hidden_}, options)};
    if (steps == 0) return {Tensor{}, state.h, state.c};
    const Tensor gates = linear(x, in_[3], in_[5]);
    std::vector<Tensor> results(static_cast<std::size_t>(steps));
    for (std::int64_t k = 0; k < steps; ++k) {
      const std::int64_t time = attrs_.reverse ? steps - 1 - k : k;
      results[static_cast<std::size_t>(time)] = advance(state, gates.select(0, time), time);
    }
    return {stack(results), state.h, state.c};
  }

 private:
  /** Returns [T, N]: true for steps within the sequences. */
  Tensor running() const {
    const std::vector<double> lengths(attrs_.lengths.begin(), attrs_.lengths.end());
    const Tensor times = arange(static_cast<double>(in_[0].size(0)), {.dtype = DType::i64});
    return (times.unsqueeze(1) < tensor(lengths, {.dtype = DType::i64})).to(in_[0].device());
  }

  /** Computes a step. Sequences that have ended keep their state, and their output is 0. */
  Tensor advance(CellState& state, const Tensor& gates, std::int64_t time) const {
    CellState next = cell(state, gates);
    if (attrs_.lengths.empty()) {
      state = next;
      return state.h;
    }
    const Tensor runs = running().select(0, time).unsqueeze(1);
    const Tensor y = where(runs, next.h, operand(0.0));
    state.h = where(runs, next.h, state.h);
    if (next.c.defined()) state.c = where(runs, next.c, state.c);
    return y;
  }

  CellState cell(const CellState& state, const Tensor& gates) const {
    const Tensor hidden = linear(state.h, in_[4], in_[6]);
    if (attrs_.kind == CellKind::lstm) return lstm_cell(state, gates + hidden);
    if (attrs_.kind == CellKind::gru) return {gru_cell(state.h, gates, hidden), Tensor{}};
    const Tensor sum = gates + hidden;
    return {attrs_.kind == CellKind::rnn_relu ? relu(sum) : tanh(sum), Tensor{}};
  }

  CellState lstm_cell(const CellState& state, const Tensor& gates) const {
    const Tensor i = sigmoid(part(gates, 0)), f = sigmoid(part(gates, 1)), g = tanh(part(gates, 2)),
                 o = sigmoid(part(gates, 3));
    const Tensor c = f * state.c + i * g, h = o * tanh(c);
    return {in_[7].defined() ? linear(h, in_[7]) : h, c};
  }

  Tensor gru_cell(const Tensor& h, const Tensor& x, const Tensor& u) const {
    const Tensor r = sigmoid(part(x, 0) + part(u, 0)), z = sigmoid(part(x, 1) + part(u, 1));
    const Tensor n = tanh(part(x, 2) + r * part(u, 2));
    return (1 - z) * n + z * h;
  }

  Tensor part(const Tensor& gates, std::int64_t index) const {
    return gates.narrow(-1, index * hidden_, hidden_);
  }

  const RecurrentAttrs& attrs_;
  std::array<Tensor, 8> in_;
  std::int64_t hidden_;
};

}  // namespace

Grads RecurrentLayer::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<RecurrentLayer>();
  if (grad_enabled())
    return gradients_of_composite(
        saved, gy, [&](const std::vector<Tensor>& in) { return PlainLayer(in, attrs).run(); });
  RecurrentLayerBackward::Attrs back{attrs, {}};
  for (std::size_t i = 0; i < back.wanted.size(); ++i) back.wanted[i] = saved.wanted[i];
  const auto& in = saved.inputs;
  const std::array<Tensor, 11> operands{
      in[0], in[1], in[2], in[3], in[4], in[7], saved.outputs[0], saved.outputs[3],
      gy[0], gy[1], gy[2]};
  std::array<Tensor, 11> own = operands;
  std::array<Tensor, 4> results;
  mezzo::run(op_info<RecurrentLayerBackward>, own, results, &back);
  Grads gradients(8);
  for (std::size_t i = 0; i < 3; ++i)
    if (back.wanted[i]) gradients[i] = results[i];
  const auto places = parameter_places(operands, back.wanted);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (back.wanted[3 + i])
      gradients[3 + i] =
          results[3].narrow(0, places[i].offset, places[i].numel()).view(places[i].shape);
  return gradients;
}

}  // namespace mezzo::op
