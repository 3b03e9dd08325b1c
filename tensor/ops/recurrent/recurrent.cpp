// Shape rules, gradients and public functions of the ops in recurrent.h.
#include "recurrent.h"

#include <algorithm>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../composite_gradient.h"
#include "../create.h"
#include "../elementwise/activation.h"
#include "../elementwise/operators.h"
#include "../elementwise/selection.h"
#include "../matmul/matmul.h"
#include "../require.h"
#include "../shape/join.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

void require_shape(std::string_view op, const char* what, const Tensor& x, const Shape& shape) {
  if (x.defined() && !(x.shape() == shape))
    fail<ShapeError>(op,
                     {.what = str(what, " does not fit"), .got = str(x), .expected = str(shape)});
}

void require_lengths(std::string_view op, const std::vector<std::int64_t>& lengths,
                     const Shape& x) {
  if (lengths.empty()) return;
  if (static_cast<std::int64_t>(lengths.size()) != x[1])
    fail<ValueError>(op, {.what = "the number of lengths must equal the number of sequences",
                          .got = str(lengths.size()),
                          .expected = str(x[1])});
  for (const std::int64_t length : lengths)
    if (length < 0 || length > x[0])
      fail<ValueError>(
          op,
          {.what = "a length is out of range", .got = str(length), .expected = str("0..", x[0])});
}

}  // namespace

void require_weights(std::string_view op, CellKind kind, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& w_hr) {
  if (!w_ih.defined() || !w_hh.defined())
    fail<ValueError>(op, {.what = "a weight is undefined", .expected = "weight_ih and weight_hh"});
  if (w_hr.defined() && kind != CellKind::lstm)
    fail<ValueError>(op, {.what = "weight_hr is supported by lstm only", .got = str(w_hr)});
}

OutSpecs RecurrentLayer::infer(Inputs in, const Attrs& attrs) {
  const std::string_view op = attrs.name;
  const Tensor &x = in[0], &w_ih = in[3], &w_hh = in[4], &w_hr = in[7];
  require_weights(op, attrs.kind, w_ih, w_hh, w_hr);
  const std::int64_t gates = gates_of(attrs.kind);
  if (x.dim() != 3 || w_ih.dim() != 2 || w_ih.shape()[0] % gates != 0 ||
      w_ih.shape()[1] != x.shape()[2])
    fail<ShapeError>(
        op, {.what = "input features do not fit weight_ih",
             .got = str("input ", x, " and weight_ih ", w_ih),
             .expected = str("[T, N, in] and [", gates == 1 ? std::string() : str(gates, " "),
                             "hidden, in]")});
  const std::int64_t hidden = w_ih.shape()[0] / gates, steps = x.shape()[0], batch = x.shape()[1];
  if (w_hr.defined() && w_hr.dim() != 2)
    fail<ShapeError>(
        op, {.what = "weight_hr must be a matrix", .got = str(w_hr), .expected = "[proj, hidden]"});
  const std::int64_t size = w_hr.defined() ? w_hr.shape()[0] : hidden;
  require_shape(op, "weight_hh", w_hh, {gates * hidden, size});
  require_shape(op, "bias_ih", in[5], {gates * hidden});
  require_shape(op, "bias_hh", in[6], {gates * hidden});
  require_shape(op, "weight_hr", w_hr, {size, hidden});
  require_shape(op, "the initial h", in[1], {batch, size});
  require_shape(op, "the initial c", in[2], {batch, hidden});
  require_lengths(op, attrs.lengths, x.shape());
  const DType dtype = require_one_floating_dtype(op, in);
  const bool lstm = attrs.kind == CellKind::lstm;
  std::int64_t rows = attrs.lengths.empty() ? checked_product({steps, batch}, op) : 0;
  for (const std::int64_t length : attrs.lengths) rows += length;
  // The gates; an LSTM also keeps c, and a GRU the part of n that is multiplied by r.
  const std::int64_t kept =
      attrs.keep ? checked_product({rows, hidden, gates == 1 ? 1 : gates + 1}, op) : 0;
  return {{{steps, batch, size}, dtype},
          {{batch, size}, dtype},
          {lstm ? Shape{batch, hidden} : Shape{0}, dtype},
          {{kept}, compute_dtype(dtype)}};
}

OutSpecs RecurrentLayerBackward::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = in[0].dtype();
  const auto wanted = [&](std::size_t i, const Tensor& x) {
    return OutSpec{attrs.wanted[i] ? x.shape() : Shape{0}, dtype};
  };
  std::int64_t weights = 0;
  for (const ParameterPlace& place : parameter_places(in, attrs.wanted)) weights += place.numel();
  return {wanted(0, in[0]), wanted(1, in[1]), wanted(2, in[2]), {{weights}, dtype}};
}

std::array<ParameterPlace, 5> parameter_places(Inputs in, const std::array<bool, 8>& wanted) {
  const Shape bias{in[3].shape()[0]};
  std::array<ParameterPlace, 5> places;
  places[0].shape = in[3].shape();
  places[1].shape = in[4].shape();
  places[2].shape = places[3].shape = bias;
  places[4].shape = in[5].defined() ? in[5].shape() : Shape{0};
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!wanted[3 + i]) places[i].shape = {0};
    places[i].offset = offset;
    offset += places[i].numel();
  }
  return places;
}

std::span<OpInfo* const> recurrent_ops() { return infos_of(RecurrentOps{}); }

// The gradient of a recurrent layer: the fused kernel, or the layer in public ops.

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
