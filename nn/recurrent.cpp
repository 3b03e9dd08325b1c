#include "recurrent.h"

#include <cmath>

#include "../tensor/ops/create.h"
#include "../tensor/ops/index/index.h"
#include "../tensor/ops/require.h"
#include "arguments.h"
#include "init.h"

namespace mezzo::nn {

namespace {

struct CellSizes {
  std::int64_t gates, input, hidden, projected;  // projected: size of h
  bool bias, projects;
};

RecurrentWeights add_weights(Module& module, const CellSizes& sizes, const std::string& suffix) {
  const double bound = 1 / std::sqrt(static_cast<double>(sizes.hidden));
  const auto drawn = [&](const char* name, const Shape& shape) {
    return init::uniform_(module.add_parameter(name + suffix, empty(shape)), -bound, bound);
  };
  const std::int64_t rows = sizes.gates * sizes.hidden;
  RecurrentWeights weights;
  weights.weight_ih = drawn("weight_ih", {rows, sizes.input});
  weights.weight_hh = drawn("weight_hh", {rows, sizes.projected});
  if (sizes.bias) {
    weights.bias_ih = drawn("bias_ih", {rows});
    weights.bias_hh = drawn("bias_hh", {rows});
  }
  if (sizes.projects) weights.weight_hr = drawn("weight_hr", {sizes.projected, sizes.hidden});
  return weights;
}

void require_sizes(std::string_view layer, std::int64_t input_size, std::int64_t hidden_size) {
  detail::require_at_least(1, layer, "input_size", input_size);
  detail::require_at_least(1, layer, "hidden_size", hidden_size);
}

/** Throws ShapeError unless a defined state has the given rank. A state has a batch dimension if
 *  and only if x has one. */
void require_rank(std::string_view layer, const Tensor& x, const Tensor& state, int rank) {
  if (state.defined() && state.dim() != rank)
    fail<ShapeError>(layer,
                     {.what = "the initial state has the wrong number of dimensions for the input",
                      .got = str("state ", str(state), " for input ", str(x)),
                      .expected = str(rank, " dimensions")});
}

/** Throws ShapeError unless the last dimension of x has the features that the module was
 * constructed for. */
void require_features(const Module& module, const Tensor& x, const RecurrentWeights& first) {
  const std::int64_t features = first.weight_ih.size(1);
  if (x.size(-1) != features)
    fail<ShapeError>(module.kind(),
                     {.what = "the input has the wrong number of features",
                      .got = str("input ", str(x), " with ", x.size(-1), " features"),
                      .expected = str(features, " features, the input_size of this ", module.kind(),
                                      "(", module.state().summary, ")")});
}

Tensor with_batch(const Tensor& state, int dim) {
  return state.defined() ? state.unsqueeze(dim) : state;
}

std::string summary_of(std::int64_t input_size, std::int64_t hidden_size,
                       const LstmLayerOptions& o) {
  std::string text = str(input_size, ", ", hidden_size);
  if (o.num_layers != 1) text += str(", num_layers ", o.num_layers);
  if (o.batch_first) text += ", batch_first";
  if (o.dropout != 0) text += str(", dropout ", o.dropout);
  if (o.bidirectional) text += ", bidirectional";
  if (o.proj_size != 0) text += str(", proj_size ", o.proj_size);
  return text;
}

void squeeze_batch(RecurrentResult& r, int dim) {
  r.output = r.output.squeeze(dim);
  r.h = r.h.squeeze(1);
}
void squeeze_batch(LstmResult& r, int dim) {
  r.output = r.output.squeeze(dim);
  r.h = r.h.squeeze(1);
  r.c = r.c.squeeze(1);
}

PackedRecurrentResult with_output(PackedSequence output, RecurrentResult& r) {
  return {std::move(output), std::move(r.h)};
}
PackedLstmResult with_output(PackedSequence output, LstmResult& r) {
  return {std::move(output), std::move(r.h), std::move(r.c)};
}

}  // namespace

template <class Derived>
RecurrentLayer<Derived>::RecurrentLayer(std::int64_t gates, std::int64_t input_size,
                                        std::int64_t hidden_size, const LstmLayerOptions& options)
    : options_(options) {
  const std::string_view layer = this->kind();
  require_sizes(layer, input_size, hidden_size);
  detail::require_at_least(1, layer, "num_layers", options.num_layers);
  detail::require_probability(layer, "dropout", options.dropout);
  if (options.proj_size < 0 || options.proj_size >= hidden_size)
    fail<ValueError>(layer, {.what = "proj_size is out of range",
                             .got = str(options.proj_size),
                             .expected = str("0..", hidden_size - 1)});
  const bool projects = options.proj_size > 0;
  const std::int64_t out = projects ? options.proj_size : hidden_size;
  for (std::int64_t k = 0; k < options.num_layers; ++k)
    for (const char* direction : {"", "_reverse"}) {
      if (*direction != '\0' && !options.bidirectional) continue;
      const std::int64_t in = k == 0 ? input_size : options.bidirectional ? 2 * out : out;
      weights_.push_back(add_weights(*this, {gates, in, hidden_size, out, options.bias, projects},
                                     str("_l", k, direction)));
    }
  this->set_summary(summary_of(input_size, hidden_size, options));
}

template <class Derived> RecurrentOptions RecurrentLayer<Derived>::call_options() const {
  return {.batch_first = options_.batch_first,
          .bidirectional = options_.bidirectional,
          .dropout = this->training() ? options_.dropout : 0};
}

template <class Derived>
template <class Result, class Run>
Result RecurrentLayer<Derived>::on_tensor(const Tensor& x, const LstmState& states,
                                          const Run& run) const {
  require_defined(this->kind(), x);
  if (x.dim() != 2 && x.dim() != 3)
    fail<ShapeError>(this->kind(), {.what = "the input has the wrong number of dimensions",
                                    .got = str(x),
                                    .expected = options_.batch_first ? "[N, T, in] or [T, in]"
                                                                     : "[T, N, in] or [T, in]"});
  require_features(*this, x, weights_[0]);
  require_rank(this->kind(), x, states.h, x.dim());
  require_rank(this->kind(), x, states.c, x.dim());
  if (x.dim() == 3) return run(x, states, call_options());
  const int batch_dim = options_.batch_first ? 0 : 1;
  Result result = run(x.unsqueeze(batch_dim), {with_batch(states.h, 1), with_batch(states.c, 1)},
                      call_options());
  squeeze_batch(result, batch_dim);
  return result;
}

/** Unpacks the sequence, because the kernels take a padded batch and lengths in any order. */
template <class Derived>
template <class Result, class Run>
Result RecurrentLayer<Derived>::on_packed(const PackedSequence& x, const LstmState& states,
                                          const Run& run) const {
  const PaddedSequence padded = pad_packed_sequence(x);
  RecurrentOptions options = call_options();
  options.batch_first = false;
  options.lengths = padded.lengths;
  require_features(*this, padded.output, weights_[0]);
  require_rank(this->kind(), padded.output, states.h, 3);
  require_rank(this->kind(), padded.output, states.c, 3);
  auto result = run(padded.output, states, options);
  // Packs with x's own order, because sorting the lengths again could order ties differently.
  return with_output(detail::packed_like(x, result.output), result);
}

template class RecurrentLayer<RNN>;
template class RecurrentLayer<GRU>;
template class RecurrentLayer<LSTM>;

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RnnLayerOptions& o)
    : RecurrentLayer(1, input_size, hidden_size,
                     {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional, 0}),
      nonlinearity_(o.nonlinearity) {}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const GruLayerOptions& o)
    : RecurrentLayer(3, input_size, hidden_size,
                     {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional, 0}) {}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const LstmLayerOptions& options)
    : RecurrentLayer(4, input_size, hidden_size, options) {}

namespace {

/** Adapts a function of one state to the signature that on_tensor() and on_packed() call. */
auto caller(RecurrentResult (*function)(const Tensor&, const Tensor&,
                                        const std::vector<RecurrentWeights>&,
                                        const RecurrentOptions&),
            const std::vector<RecurrentWeights>& weights) {
  return [function, &weights](const Tensor& x, const LstmState& states,
                              const RecurrentOptions& options) {
    return function(x, states.h, weights, options);
  };
}
auto lstm_caller(const std::vector<RecurrentWeights>& weights) {
  return [&weights](const Tensor& x, const LstmState& states, const RecurrentOptions& options) {
    return lstm(x, states, weights, options);
  };
}

auto function_of(RnnNonlinearity nonlinearity) {
  return nonlinearity == RnnNonlinearity::tanh ? rnn_tanh : rnn_relu;
}

}  // namespace

RecurrentResult RNN::forward(const Tensor& x, const Tensor& h) const {
  return on_tensor<RecurrentResult>(x, {h, {}}, caller(function_of(nonlinearity_), weights()));
}
PackedRecurrentResult RNN::forward(const PackedSequence& x, const Tensor& h) const {
  return on_packed<PackedRecurrentResult>(x, {h, {}},
                                          caller(function_of(nonlinearity_), weights()));
}

RecurrentResult GRU::forward(const Tensor& x, const Tensor& h) const {
  return on_tensor<RecurrentResult>(x, {h, {}}, caller(gru, weights()));
}
PackedRecurrentResult GRU::forward(const PackedSequence& x, const Tensor& h) const {
  return on_packed<PackedRecurrentResult>(x, {h, {}}, caller(gru, weights()));
}

LstmResult LSTM::forward(const Tensor& x, const LstmState& state) const {
  return on_tensor<LstmResult>(x, state, lstm_caller(weights()));
}
PackedLstmResult LSTM::forward(const PackedSequence& x, const LstmState& state) const {
  return on_packed<PackedLstmResult>(x, state, lstm_caller(weights()));
}

// ---- cells --------------------------------------------------------------------------------------

namespace {

RecurrentWeights add_cell(Module& module, std::int64_t gates, std::int64_t input_size,
                          std::int64_t hidden_size, bool bias) {
  require_sizes(module.kind(), input_size, hidden_size);
  return add_weights(module, {gates, input_size, hidden_size, hidden_size, bias, false}, "");
}

/** Returns true if x has no batch dimension. Errors: ShapeError for wrong ranks. */
bool is_unbatched(const Module& module, const RecurrentWeights& weights, const Tensor& x,
                  const LstmState& states) {
  const std::string_view cell = module.kind();
  require_defined(cell, x);
  if (x.dim() != 1 && x.dim() != 2)
    fail<ShapeError>(cell, {.what = "the input has the wrong number of dimensions",
                            .got = str(x),
                            .expected = "[N, in] or [in]"});
  require_features(module, x, weights);
  require_rank(cell, x, states.h, x.dim());
  require_rank(cell, x, states.c, x.dim());
  return x.dim() == 1;
}

/** Calls a function of x and h on batched tensors. */
template <class F>
Tensor one_step(const Module& cell, const Tensor& x, const Tensor& h, F function,
                const RecurrentWeights& weights) {
  if (!is_unbatched(cell, weights, x, {h, {}})) return function(x, h, weights);
  return function(x.unsqueeze(0), with_batch(h, 0), weights).squeeze(0);
}

}  // namespace

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RnnCellOptions& options)
    : nonlinearity_(options.nonlinearity),
      weights_(add_cell(*this, 1, input_size, hidden_size, options.bias)) {
  set_summary(str(input_size, ", ", hidden_size));
}

Tensor RNNCell::forward(const Tensor& x, const Tensor& h) const {
  return one_step(*this, x, h,
                  nonlinearity_ == RnnNonlinearity::tanh ? rnn_tanh_cell : rnn_relu_cell, weights_);
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size,
                 const RecurrentCellOptions& options)
    : weights_(add_cell(*this, 3, input_size, hidden_size, options.bias)) {
  set_summary(str(input_size, ", ", hidden_size));
}

Tensor GRUCell::forward(const Tensor& x, const Tensor& h) const {
  return one_step(*this, x, h, gru_cell, weights_);
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size,
                   const RecurrentCellOptions& options)
    : weights_(add_cell(*this, 4, input_size, hidden_size, options.bias)) {
  set_summary(str(input_size, ", ", hidden_size));
}

LstmState LSTMCell::forward(const Tensor& x, const LstmState& state) const {
  if (!is_unbatched(*this, weights_, x, state)) return lstm_cell(x, state, weights_);
  const LstmState next =
      lstm_cell(x.unsqueeze(0), {with_batch(state.h, 0), with_batch(state.c, 0)}, weights_);
  return {next.h.squeeze(0), next.c.squeeze(0)};
}

}  // namespace mezzo::nn
