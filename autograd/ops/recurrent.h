// Recurrent cells and layers.
// Sees: tensor.
// Read next: ../../tensor/ops/recurrent.h.
#pragma once

#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** The parameters of one layer in one direction, G blocks of H rows: 1 for rnn, r, z, n for gru, i, f, g, o for lstm. */
struct RecurrentWeights {
  Tensor weight_ih;                   // [G H, in]
  Tensor weight_hh;                   // [G H, H], or [G H, P] where there is weight_hr
  Tensor bias_ih = {}, bias_hh = {};  // [G H]; undefined: none
  Tensor weight_hr = {};              // lstm only: [P, H], h' = weight_hr h; undefined: none
};

/** The state of an lstm; undefined: zeros. */
struct LstmState {
  Tensor h = {}, c = {};
};

// The cells: one step. Shape: x [N, in], states [N, H] (h of an lstm with weight_hr: [N, P]); an undefined state is zeros.
// Precision: low; gates in f32 (f64), states are rounded once. The rows of these ops carry the functions' names; they are what the lists of
// casting policies call RNNCell, GRUCell and LSTMCell.
// Errors: ShapeError, DtypeError unless all have one floating dtype, ValueError for an undefined weight.

/** tanh(W x + b_ih + U h + b_hh). Gradient: by calculus. */
MZ_API Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/** max(W x + b_ih + U h + b_hh, 0). Gradient: by calculus. */
MZ_API Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/** (1 - z) n + z h with r, z = sigmoid of their gates and n = tanh(W_n x + b_in + r (U_n h + b_hn)). Gradient: by calculus.
 *  Source: Cho et al., Learning phrase representations using RNN encoder-decoder (2014). */
MZ_API Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/** c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'). Gradient: by calculus.
 *  Source: Hochreiter, Schmidhuber, Long short-term memory (1997). */
MZ_API LstmState lstm_cell(const Tensor& x, const LstmState& state, const RecurrentWeights& weights);

struct RecurrentOptions {
  bool batch_first = false;    // x and output are [N, T, ..] instead of [T, N, ..]
  bool bidirectional = false;  // two sets of weights per layer: forward, then reverse
  double dropout = 0;          // of each layer's output but the last's; pass 0 outside training
  // How many steps of each sequence exist. Padding is neither read nor written to but for zeros in the output, and states are those of each
  // sequence's true end. Empty: all steps exist.
  std::vector<std::int64_t> lengths = {};
};

struct RecurrentResult {
  Tensor output;  // [T, N, D H]: h of the last layer at each step, both directions side by side
  Tensor h;       // [layers D, N, H]: the last state of each layer and direction
};

struct LstmResult {
  Tensor output, h, c;
};

// The layers: cells over all steps, one layer upon the other. `weights` has one entry per layer and direction: layer 0 forward, layer 0 reverse, ...
// Shape: x [T, N, in], initial states [layers D, N, H] or undefined: zeros.
// Precision: low; gates in f32 (f64), states are rounded once per step.
// Gradient: back through all steps in one fused pass; with create_graph in public ops.
// Errors: ShapeError, DtypeError unless all have one floating dtype, ValueError for undefined weights, bad dropout or lengths.

MZ_API RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h,
                                const std::vector<RecurrentWeights>& weights,
                                const RecurrentOptions& options = {});
MZ_API RecurrentResult rnn_relu(const Tensor& x, const Tensor& h,
                                const std::vector<RecurrentWeights>& weights,
                                const RecurrentOptions& options = {});
MZ_API RecurrentResult gru(const Tensor& x, const Tensor& h, const std::vector<RecurrentWeights>& weights,
                           const RecurrentOptions& options = {});
MZ_API LstmResult lstm(const Tensor& x, const LstmState& state, const std::vector<RecurrentWeights>& weights,
                       const RecurrentOptions& options = {});

}  // namespace mezzo
