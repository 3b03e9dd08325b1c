// Recurrent cells and layers. ops.h explains the notation and the precision tags.
#pragma once

#include <vector>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** The parameters of one layer in one direction: G gate blocks of H rows. rnn has one block, gru
 *  has r, z, n, and lstm has i, f, g, o. */
struct RecurrentWeights {
  Tensor weight_ih;       // [G H, in]
  Tensor weight_hh;       // [G H, H], or [G H, P] where there is weight_hr
  Tensor bias_ih = {},    // [G H]: added to weight_ih x; undefined: none
      bias_hh = {};       // [G H]: added to weight_hh h; undefined: none
  Tensor weight_hr = {};  // lstm only: [P, H], h' = weight_hr h; undefined: none
};

/** The state of an lstm; undefined tensors are zeros. */
struct LstmState {
  Tensor h = {},  // hidden state, the output of a step; of size H, or P with weight_hr
      c = {};     // cell state, of size H
};

// Cells, which compute one step.
// Shape: x [N, in], states [N, H] (h of an lstm with weight_hr: [N, P]); an undefined state is
// zeros.
// Precision: low; gates are computed in f32 (f64), states are rounded once. The ops have the names
// of the functions; other libraries' lists of casts call them RNNCell, GRUCell and LSTMCell.
// Errors: ShapeError; DtypeError unless all have one floating-point dtype; ValueError for an
// undefined weight.

/** Returns tanh(W x + b_ih + U h + b_hh).
 *  Gradient: the derivative. */
MZ_API Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/** Returns max(W x + b_ih + U h + b_hh, 0).
 *  Gradient: the derivative. */
MZ_API Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/** Returns (1 - z) n + z h with r, z = sigmoid of their gates and n = tanh(W_n x + b_in + r (U_n h
 *  + b_hn)).
 *  Gradient: the derivative.
 *  Source: Cho et al., Learning phrase representations using RNN encoder-decoder (2014). */
MZ_API Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
/** Returns c' = sigmoid(f) c + sigmoid(i) tanh(g) and h' = sigmoid(o) tanh(c').
 *  Gradient: the derivative.
 *  Source: Hochreiter, Schmidhuber, Long short-term memory (1997). */
MZ_API LstmState lstm_cell(const Tensor& x, const LstmState& state,
                           const RecurrentWeights& weights);

/** Options of rnn_tanh, rnn_relu, gru and lstm. */
struct RecurrentOptions {
  bool batch_first = false;    // x and output are [N, T, ..] instead of [T, N, ..]
  bool bidirectional = false;  // two sets of weights per layer: forward, then reverse
  double dropout = 0;          // of every layer's output but the last; pass 0 outside training
  /** The number of steps of each sequence. Steps beyond it are not read, their output is zero, and
   *  states are those at the end of each sequence. Empty: all sequences have all steps. */
  std::vector<std::int64_t> lengths = {};
};

/** The result of rnn_tanh, rnn_relu and gru. */
struct RecurrentResult {
  Tensor output;  // [T, N, D H]: h of the last layer at each step, both directions side by side
  Tensor h;       // [layers D, N, H]: the last state of each layer and direction
};

/** The result of lstm. With weight_hr, output and h have size P in place of H. */
struct LstmResult {
  Tensor output,  // as in RecurrentResult
      h,          // as in RecurrentResult
      c;          // [layers D, N, H]: the last cell state of each layer and direction
};

// Layers, which apply cells to all steps; each layer reads the output of the one before. `weights`
// has one entry per layer and direction: layer 0 forward, layer 0 reverse, ...
// Shape: x [T, N, in], initial states [layers D, N, H], where D is the number of directions; an
// undefined state is zeros.
// Precision: low; gates are computed in f32 (f64), states are rounded once per step.
// Gradient: through all steps in one fused pass; with create_graph through public ops.
// Errors: ShapeError; DtypeError unless all have one floating-point dtype; ValueError for undefined
// weights, bad dropout or lengths.

/** Applies layers of rnn_tanh_cell to a sequence. */
MZ_API RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h,
                                const std::vector<RecurrentWeights>& weights,
                                const RecurrentOptions& options = {});
/** Applies layers of rnn_relu_cell to a sequence. */
MZ_API RecurrentResult rnn_relu(const Tensor& x, const Tensor& h,
                                const std::vector<RecurrentWeights>& weights,
                                const RecurrentOptions& options = {});
/** Applies layers of gru_cell to a sequence. */
MZ_API RecurrentResult gru(const Tensor& x, const Tensor& h,
                           const std::vector<RecurrentWeights>& weights,
                           const RecurrentOptions& options = {});
/** Applies layers of lstm_cell to a sequence. */
MZ_API LstmResult lstm(const Tensor& x, const LstmState& state,
                       const std::vector<RecurrentWeights>& weights,
                       const RecurrentOptions& options = {});

}  // namespace mezzo
