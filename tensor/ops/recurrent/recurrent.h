// Recurrent cells and layers. ops.h explains the notation and the precision tags.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "../../core/op.h"
#include "../../core/tensor.h"

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

namespace mezzo::op {

/** The kinds of recurrent cells. */
enum class CellKind : std::uint8_t { rnn_tanh, rnn_relu, gru, lstm };

/** Returns the number of blocks of H rows in the weights: r, z, n of a GRU; i, f, g, o of an
 *  LSTM. */
constexpr std::int64_t gates_of(CellKind kind) {
  return kind == CellKind::lstm ? 4 : kind == CellKind::gru ? 3 : 1;
}

/** Attributes of one layer in one direction. */
struct RecurrentAttrs {
  CellKind kind = CellKind::rnn_tanh;
  bool reverse = false;                    // run from the end of each sequence to its beginning
  bool keep = true;                        // keep what the gradient needs
  std::vector<std::int64_t> lengths = {};  // one per sequence, in 0..T; empty: all are T
  std::string_view name = "recurrent_layer";
};

/** One layer in one direction. Operands: x [T, N, in], h0 [N, out], c0 [N, H], w_ih [gates * H,
 *  in], w_hh [gates * H, out], b_ih and b_hh [gates * H], w_hr [out, H]; states, biases and w_hr
 *  may be undefined. Results: y [T, N, out], the last h and c, and the values saved for the
 *  gradient. */
struct RecurrentLayer {
  static constexpr Needs kAll = Needs{0x00FF} | output(0) | output(3);
  static constexpr OpTraits traits{.name = "recurrent_layer",
                                   .precision = Precision::low,
                                   .inputs = 8,
                                   .outputs = 4,
                                   .needs = {kAll, kAll, kAll, kAll, kAll, kAll, kAll, kAll},
                                   .internal = true};
  using Attrs = RecurrentAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Checks that the weights of one layer in one direction exist, and that only an lstm has w_hr.
 *  Errors: ValueError naming `op`. */
void require_weights(std::string_view op, CellKind kind, const Tensor& w_ih, const Tensor& w_hh,
                     const Tensor& w_hr);

/** Operands: x, h0, c0, w_ih, w_hh and w_hr of the forward op, its results y and the saved values,
 *  and the gradients of y and of the last h and c. Results: the gradients of x, h0 and c0, and
 *  those of w_ih, w_hh, b_ih, b_hh, w_hr concatenated; a gradient that is not wanted is empty. */
struct RecurrentLayerBackward {
  static constexpr OpTraits traits{.name = "recurrent_layer_backward",
                                   .precision = Precision::match,
                                   .inputs = 11,
                                   .outputs = 4,
                                   .differentiable = false,
                                   .internal = true};
  /** Indices of the operands, and of the parameters in the last result. */
  enum Operand : std::size_t { kX, kH0, kC0, kWih, kWhh, kWhr, kY, kKept, kGy, kGh, kGc };
  enum Parameter : std::size_t { kDwih, kDwhh, kDbih, kDbhh, kDwhr };
  struct Attrs {
    RecurrentAttrs forward;
    std::array<bool, 8> wanted{};  // one per operand of the forward op
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Offset and shape of a parameter's gradient in the last result of RecurrentLayerBackward; the
 *  shape is [0] if the gradient is not wanted. */
struct ParameterPlace {
  Shape shape{0};
  std::int64_t offset = 0;

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    return n;
  }
};

/** Returns the places of w_ih, w_hh, b_ih, b_hh and w_hr. `in` are the operands of
 *  RecurrentLayerBackward. */
std::array<ParameterPlace, 5> parameter_places(Inputs in, const std::array<bool, 8>& wanted);

/** Attributes of a stack of layers. Operands: x, h0, (lstm) c0, then w_ih, w_hh, b_ih, b_hh, w_hr
 *  of each layer and direction. */
struct RecurrentStackAttrs {
  bool batch_first = false;
  bool bidirectional = false;
  double dropout = 0;  // between layers
  std::vector<std::int64_t> lengths = {};
};

/** Returns the traits of a public recurrent op. */
constexpr OpTraits recurrent_traits(std::string_view name, std::string_view summary, int outputs) {
  return {.name = name,
          .precision = Precision::low,
          .summary = summary,
          .inputs = kVariadic,
          .outputs = outputs};
}

#define MZ_RECURRENT_OP(Struct, name, summary, outputs, AttrsType)               \
  struct Struct {                                                                \
    static constexpr OpTraits traits = recurrent_traits(name, summary, outputs); \
    using Attrs = AttrsType;                                                     \
    static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);         \
  };
MZ_RECURRENT_OP(Gru, "gru", "gated recurrent layers", 2, RecurrentStackAttrs)
MZ_RECURRENT_OP(GruCell, "gru_cell", "one step of a gated recurrent unit", 1, NoAttrs)
MZ_RECURRENT_OP(Lstm, "lstm", "long short-term memory layers", 3, RecurrentStackAttrs)
MZ_RECURRENT_OP(LstmCell, "lstm_cell", "one step of a long short-term memory", 2, NoAttrs)
MZ_RECURRENT_OP(RnnRelu, "rnn_relu", "recurrent layers with relu", 2, RecurrentStackAttrs)
MZ_RECURRENT_OP(RnnReluCell, "rnn_relu_cell", "one step of a recurrent cell with relu", 1, NoAttrs)
MZ_RECURRENT_OP(RnnTanh, "rnn_tanh", "recurrent layers with tanh", 2, RecurrentStackAttrs)
MZ_RECURRENT_OP(RnnTanhCell, "rnn_tanh_cell", "one step of a recurrent cell with tanh", 1, NoAttrs)
#undef MZ_RECURRENT_OP

using RecurrentOps = type_list<Gru, GruCell, Lstm, LstmCell, RecurrentLayer, RecurrentLayerBackward,
                               RnnRelu, RnnReluCell, RnnTanh, RnnTanhCell>;

}  // namespace mezzo::op
