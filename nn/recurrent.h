// RNN, LSTM and GRU: layers over whole sequences, and their cells for one step.
// Sees: model.h, packed_sequence.h.
// Read next: ../autograd/ops/recurrent.h (formulas, gradients), recurrent.cpp.
#pragma once

#include "../autograd/ops/recurrent.h"
#include "model.h"
#include "packed_sequence.h"

namespace mezzo {

// Where the casts around a model's call find the tensors (cast_tree.h).
template <std::same_as<LstmState> T> auto fields(T& s) { return std::tie(s.h, s.c); }
template <std::same_as<RecurrentResult> T> auto fields(T& r) { return std::tie(r.output, r.h); }
template <std::same_as<LstmResult> T> auto fields(T& r) { return std::tie(r.output, r.h, r.c); }

namespace nn {

enum class RnnNonlinearity : std::uint8_t { tanh, relu };

struct RnnLayerOptions {
  std::int64_t num_layers = 1;
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;
  bool bias = true;
  bool batch_first = false;  // x and output are [N, T, ...] instead of [T, N, ...]; states are not concerned
  double dropout = 0;        // while training, of each layer's output but the last's
  bool bidirectional = false;  // a second set of weights reads each sequence from its end
};

struct GruLayerOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
};

struct LstmLayerOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  std::int64_t proj_size = 0;  // h is projected to this size; 0: it is not
};

/** Output and states of a packed sequence: the output is packed in the same way. */
struct PackedRecurrentResult {
  PackedSequence output;
  Tensor h;
};
struct PackedLstmResult {
  PackedSequence output;
  Tensor h, c;
};
template <std::same_as<PackedRecurrentResult> T> auto fields(T& r) { return std::tie(r.output, r.h); }
template <std::same_as<PackedLstmResult> T> auto fields(T& r) { return std::tie(r.output, r.h, r.c); }

/** What the layers have in common.
 *  Shape: x [T,N,in] or [N,T,in] with batch_first, or [T,in] for one sequence alone; initial states [layers D, N, H], or [layers D, H] for that
 *  one, undefined meaning zeros, with D = 2 where bidirectional, else 1. Output [T, N, D H], states as the initial ones. A PackedSequence gives
 *  a packed output and the states at each sequence's own end.
 *  Parameters: for each layer k weight_ih_lk [G H, in or D H], weight_hh_lk [G H, H], bias_ih_lk and bias_hh_lk [G H], the same again with
 *  _reverse behind the name where bidirectional, all from U(-1, 1) / sqrt(H). G blocks: 1 for RNN, r, z, n for GRU, i, f, g, o for LSTM.
 *  Precision: low; gates in f32 (f64), states rounded once per step.
 *  Errors: ValueError for sizes below 1 and a dropout outside 0..1; when called: ShapeError, and as the functions. */
template <class Derived> class MZ_API RecurrentLayer : public Model<Derived> {
 public:
  /** One entry for each layer and direction: layer 0 forward, layer 0 reverse, layer 1 forward, ... */
  const std::vector<RecurrentWeights>& weights() const { return weights_; }

 protected:
  RecurrentLayer(std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                 const LstmLayerOptions& options);
  /** Calls run(x, states, options) on batched tensors. */
  template <class Result, class Run>
  Result on_tensor(const Tensor& x, const LstmState& states, const Run& run) const;
  template <class Result, class Run>
  Result on_packed(const PackedSequence& x, const LstmState& states, const Run& run) const;

 private:
  RecurrentOptions call_options() const;

  LstmLayerOptions options_;
  std::vector<RecurrentWeights> weights_;
};

/** h' = tanh(W x + b_ih + U h + b_hh), or with relu: `nn::RNN{10, 20, {.num_layers = 2}}`. */
class MZ_API RNN : public RecurrentLayer<RNN> {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RnnLayerOptions& options = {});

  RecurrentResult forward(const Tensor& x, const Tensor& h = {}) const;
  PackedRecurrentResult forward(const PackedSequence& x, const Tensor& h = {}) const;

 private:
  RnnNonlinearity nonlinearity_;
};

/** Gated recurrent unit. Source: Cho et al., Learning phrase representations using RNN encoder-decoder (2014). */
class MZ_API GRU : public RecurrentLayer<GRU> {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const GruLayerOptions& options = {});

  RecurrentResult forward(const Tensor& x, const Tensor& h = {}) const;
  PackedRecurrentResult forward(const PackedSequence& x, const Tensor& h = {}) const;
};

/** Long short-term memory. With proj_size P, h has P elements, weight_hh_lk is [4 H, P] and weight_hr_lk [P, H] comes behind the biases.
 *  Errors: ValueError also unless 0 <= proj_size < hidden_size.
 *  Source: Hochreiter, Schmidhuber, Long short-term memory (1997). */
class MZ_API LSTM : public RecurrentLayer<LSTM> {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const LstmLayerOptions& options = {});

  LstmResult forward(const Tensor& x, const LstmState& state = {}) const;
  PackedLstmResult forward(const PackedSequence& x, const LstmState& state = {}) const;
};

struct RnnCellOptions {
  bool bias = true;
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;
};

struct RecurrentCellOptions {
  bool bias = true;
};

// The cells: one step. Shape: x [N,in] or [in], states [N,H] or [H], undefined meaning zeros.
// Parameters: weight_ih [G H, in], weight_hh [G H, H], bias_ih and bias_hh [G H], from U(-1, 1) / sqrt(H).
// Precision: low.   Errors: ValueError for sizes below 1; when called: ShapeError, and as the functions.

class MZ_API RNNCell : public Model<RNNCell> {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RnnCellOptions& options = {});

  Tensor forward(const Tensor& x, const Tensor& h = {}) const;

  const RecurrentWeights& weights() const { return weights_; }

 private:
  RnnNonlinearity nonlinearity_;
  RecurrentWeights weights_;
};

class MZ_API GRUCell : public Model<GRUCell> {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {});

  Tensor forward(const Tensor& x, const Tensor& h = {}) const;

  const RecurrentWeights& weights() const { return weights_; }

 private:
  RecurrentWeights weights_;
};

class MZ_API LSTMCell : public Model<LSTMCell> {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RecurrentCellOptions& options = {});

  LstmState forward(const Tensor& x, const LstmState& state = {}) const;

  const RecurrentWeights& weights() const { return weights_; }

 private:
  RecurrentWeights weights_;
};

extern template class RecurrentLayer<RNN>;
extern template class RecurrentLayer<GRU>;
extern template class RecurrentLayer<LSTM>;

}  // namespace nn
}  // namespace mezzo
