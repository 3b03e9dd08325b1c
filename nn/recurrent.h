// RNN, LSTM and GRU: layers over whole sequences, and cells for one step.
// See also: tensor/ops/recurrent/recurrent.h (formulas, gradients).
#pragma once

#include "../tensor/ops/recurrent/recurrent.h"
#include "model.h"
#include "packed_sequence.h"

namespace mezzo {

/** Returns the tensors that casts of module arguments and results apply to (cast_tree.h). */
template <std::same_as<LstmState> T> auto fields(T& s) { return std::tie(s.h, s.c); }
/** As above, for the result of RNN and GRU. */
template <std::same_as<RecurrentResult> T> auto fields(T& r) { return std::tie(r.output, r.h); }
/** As above, for the result of LSTM. */
template <std::same_as<LstmResult> T> auto fields(T& r) { return std::tie(r.output, r.h, r.c); }

namespace nn {

/** The nonlinearity of nn::RNN and nn::RNNCell. */
enum class RnnNonlinearity : std::uint8_t { tanh, relu };

/** Options of nn::RNN. */
struct RnnLayerOptions {
  std::int64_t num_layers = 1;                           // number of stacked layers
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;  // tanh or relu
  bool bias = true;                                      // adds biases
  bool batch_first = false;    // x and output (not states) are [N, T, ...] instead of [T, N, ...]
  double dropout = 0;          // while training, applied to the output of all layers but the last
  bool bidirectional = false;  // adds weights that process each sequence in reverse
};

/** Options of nn::GRU. */
struct GruLayerOptions {
  std::int64_t num_layers = 1;  // number of stacked layers
  bool bias = true;             // adds biases
  bool batch_first = false;     // x and output (not states) are [N, T, ...] instead of [T, N, ...]
  double dropout = 0;           // while training, applied to the output of all layers but the last
  bool bidirectional = false;   // adds weights that process each sequence in reverse
};

/** Options of nn::LSTM. */
struct LstmLayerOptions {
  std::int64_t num_layers = 1;  // number of stacked layers
  bool bias = true;             // adds biases
  bool batch_first = false;     // x and output (not states) are [N, T, ...] instead of [T, N, ...]
  double dropout = 0;           // while training, applied to the output of all layers but the last
  bool bidirectional = false;   // adds weights that process each sequence in reverse
  std::int64_t proj_size = 0;   // size that h is projected to; 0: no projection
};

/** Output and states of a packed sequence. The output is packed in the same order. */
struct PackedRecurrentResult {
  PackedSequence output;  // [sum of lengths, D H], D = 2 if bidirectional, else 1
  Tensor h;               // [layers D, N, H]: h at the end of each sequence
};
/** Output and states of an LSTM for a packed sequence. */
struct PackedLstmResult {
  PackedSequence output;  // [sum of lengths, D H], or [.., D P] with proj_size P
  /** [layers D, N, H or P]: h at the end of each sequence. */
  Tensor h, c;  // [layers D, N, H]: c at the end of each sequence
};
template <std::same_as<PackedRecurrentResult> T> auto fields(T& r) {
  return std::tie(r.output, r.h);
}
template <std::same_as<PackedLstmResult> T> auto fields(T& r) {
  return std::tie(r.output, r.h, r.c);
}

/** Common base of the recurrent layers.
 *  Shape: x [T,N,in], [N,T,in] with batch_first, or [T,in] without a batch; initial states
 *  [layers D, N, H], or [layers D, H] without a batch, with D = 2 if bidirectional, else 1.
 *  Undefined initial states mean zeros. Output [T, N, D H]; final states have the shape of the
 *  initial ones. A PackedSequence gives a packed output and the states at the end of each sequence.
 *  Parameters: for each layer k weight_ih_lk [G H, in or D H], weight_hh_lk [G H, H], bias_ih_lk
 *  and bias_hh_lk [G H]; if bidirectional, the same with the suffix _reverse; all from
 *  U(-1, 1) / sqrt(H). The G blocks are: 1 for RNN; r, z, n for GRU; i, f, g, o for LSTM.
 *  Precision: low; gates are f32 (f64), states are rounded once per step.
 *  Errors: ValueError for sizes below 1 and a dropout outside 0..1; calls throw ShapeError, and as
 *  the functions do. */
template <class Derived> class MZ_API RecurrentLayer : public Model<Derived> {
 public:
  /** Returns one entry for each layer and direction: layer 0 forward, layer 0 reverse, layer 1
   *  forward, ... */
  const std::vector<RecurrentWeights>& weights() const { return weights_; }

 protected:
  /** Constructs the parameters of all layers and directions; `gates` is G. */
  RecurrentLayer(std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                 const LstmLayerOptions& options);
  /** Calls run(x, states, options) on batched tensors. */
  template <class Result, class Run>
  Result on_tensor(const Tensor& x, const LstmState& states, const Run& run) const;
  /** Calls run(x, states, options) on the padded batch of a packed sequence. */
  template <class Result, class Run>
  Result on_packed(const PackedSequence& x, const LstmState& states, const Run& run) const;

 private:
  RecurrentOptions call_options() const;

  LstmLayerOptions options_;
  std::vector<RecurrentWeights> weights_;
};

/** Simple recurrent layer: h' = tanh(W x + b_ih + U h + b_hh), or with relu instead of tanh.
 *  Example: `nn::RNN{10, 20, {.num_layers = 2}}`. */
class MZ_API RNN : public RecurrentLayer<RNN> {
 public:
  /** Constructs a layer from input_size features to states of hidden_size features. */
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RnnLayerOptions& options = {});

  /** Returns the outputs of all steps and the final states. An undefined h means zeros. */
  RecurrentResult forward(const Tensor& x, const Tensor& h = {}) const;
  /** As above, for sequences of different lengths; h is in the order of the original batch. */
  PackedRecurrentResult forward(const PackedSequence& x, const Tensor& h = {}) const;

 private:
  RnnNonlinearity nonlinearity_;
};

/** Gated recurrent unit.
 *  Source: Cho et al., Learning phrase representations using RNN encoder-decoder (2014). */
class MZ_API GRU : public RecurrentLayer<GRU> {
 public:
  /** Constructs a layer from input_size features to states of hidden_size features. */
  GRU(std::int64_t input_size, std::int64_t hidden_size, const GruLayerOptions& options = {});

  /** Returns the outputs of all steps and the final states. An undefined h means zeros. */
  RecurrentResult forward(const Tensor& x, const Tensor& h = {}) const;
  /** As above, for sequences of different lengths; h is in the order of the original batch. */
  PackedRecurrentResult forward(const PackedSequence& x, const Tensor& h = {}) const;
};

/** Long short-term memory. With proj_size P, h has P elements, weight_hh_lk is [4 H, P], and
 *  weight_hr_lk [P, H] follows the biases.
 *  Errors: as RecurrentLayer; ValueError unless 0 <= proj_size < hidden_size.
 *  Source: Hochreiter, Schmidhuber, Long short-term memory (1997). */
class MZ_API LSTM : public RecurrentLayer<LSTM> {
 public:
  /** Constructs a layer from input_size features to states of hidden_size features. */
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const LstmLayerOptions& options = {});

  /** Returns the outputs of all steps and the final states. Undefined states mean zeros. */
  LstmResult forward(const Tensor& x, const LstmState& state = {}) const;
  /** As above, for sequences of different lengths; states are in the order of the original
   *  batch. */
  PackedLstmResult forward(const PackedSequence& x, const LstmState& state = {}) const;
};

/** Options of nn::RNNCell. */
struct RnnCellOptions {
  bool bias = true;                                      // adds biases
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;  // tanh or relu
};

/** Options of nn::GRUCell and nn::LSTMCell. */
struct RecurrentCellOptions {
  bool bias = true;  // adds biases
};

// Cells compute one step.
// Shape: x [N,in] or [in], states [N,H] or [H]. Undefined states mean zeros.
// Parameters: weight_ih [G H, in], weight_hh [G H, H], bias_ih and bias_hh [G H], from
// U(-1, 1) / sqrt(H).
// Precision: low.
// Errors: ValueError for sizes below 1; calls throw ShapeError, and as the functions do.

/** One step of RNN. */
class MZ_API RNNCell : public Model<RNNCell> {
 public:
  /** Constructs a cell from input_size features to a state of hidden_size features. */
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RnnCellOptions& options = {});

  /** Returns the next state. An undefined h means zeros. */
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;

  /** Returns the weights and biases; biases are undefined without the option `bias`. */
  const RecurrentWeights& weights() const { return weights_; }

 private:
  RnnNonlinearity nonlinearity_;
  RecurrentWeights weights_;
};

/** One step of GRU. */
class MZ_API GRUCell : public Model<GRUCell> {
 public:
  /** Constructs a cell from input_size features to a state of hidden_size features. */
  GRUCell(std::int64_t input_size, std::int64_t hidden_size,
          const RecurrentCellOptions& options = {});

  /** Returns the next state. An undefined h means zeros. */
  Tensor forward(const Tensor& x, const Tensor& h = {}) const;

  /** Returns the weights and biases; biases are undefined without the option `bias`. */
  const RecurrentWeights& weights() const { return weights_; }

 private:
  RecurrentWeights weights_;
};

/** One step of LSTM. */
class MZ_API LSTMCell : public Model<LSTMCell> {
 public:
  /** Constructs a cell from input_size features to states of hidden_size features. */
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size,
           const RecurrentCellOptions& options = {});

  /** Returns the next h and c. Undefined states mean zeros. */
  LstmState forward(const Tensor& x, const LstmState& state = {}) const;

  /** Returns the weights and biases; biases are undefined without the option `bias`. */
  const RecurrentWeights& weights() const { return weights_; }

 private:
  RecurrentWeights weights_;
};

extern template class RecurrentLayer<RNN>;
extern template class RecurrentLayer<GRU>;
extern template class RecurrentLayer<LSTM>;

}  // namespace nn
}  // namespace mezzo
