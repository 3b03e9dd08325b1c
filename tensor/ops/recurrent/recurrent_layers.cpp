// The composites of recurrent cells and of stacks of recurrent layers, made of single layers in one
// direction.
#include <algorithm>

#include "../../core/dispatch.h"
#include "../../text/text.h"
#include "../random/random.h"
#include "../require.h"
#include "../shape/join.h"
#include "recurrent.h"

namespace mezzo::op {

namespace {

bool any_requires_grad(Inputs in) {
  return std::any_of(in.begin(), in.end(),
                     [](const Tensor& x) { return x.defined() && x.requires_grad(); });
}

/** Returns y, h and c of one layer in one direction. */
std::array<Tensor, 4> layer(Inputs operands, RecurrentAttrs attrs) {
  attrs.keep = grad_enabled() && any_requires_grad(operands);
  std::array<Tensor, 8> in;
  std::copy(operands.begin(), operands.end(), in.begin());
  std::array<Tensor, 4> out;
  run(op_info<RecurrentLayer>, in, out, &attrs);
  return out;
}

// ---- cells --------------------------------------------------------------------------------------

/** Computes one step, as a layer over a sequence of length 1. Operands: x, h, c, w_ih, w_hh, b_ih,
 *  b_hh, w_hr. */
std::vector<Tensor> cell(CellKind kind, std::string_view name, Inputs in) {
  if (in[0].dim() != 2)
    fail<ShapeError>(name, {.what = "the input of one step must be a matrix",
                            .got = str(in[0]),
                            .expected = "[N, in]"});
  std::array<Tensor, 8> operands;
  std::copy(in.begin(), in.end(), operands.begin());
  operands[0] = in[0].unsqueeze(0);
  const auto results = layer(operands, {.kind = kind, .name = name});
  if (kind == CellKind::lstm) return {results[1], results[2]};
  return {results[1]};
}

// ---- stacks -------------------------------------------------------------------------------------

constexpr std::size_t kParameters = 5;  // w_ih, w_hh, b_ih, b_hh, w_hr

/** The operands of a stack of layers. */
struct LayerStack {
  CellKind kind;
  std::string_view name;
  const RecurrentStackAttrs& attrs;
  Tensor x, h0, c0;
  Inputs parameters;
  std::size_t directions, layers;

  LayerStack(CellKind k, std::string_view n, Inputs in, const RecurrentStackAttrs& a)
      : kind(k), name(n), attrs(a), directions(a.bidirectional ? 2 : 1) {
    const std::size_t states = kind == CellKind::lstm ? 2 : 1;
    x = in[0];
    h0 = in[1];
    if (states == 2) c0 = in[2];
    parameters = in.subspan(1 + states);
    layers = parameters.size() / (kParameters * directions);
    require(in);
    if (attrs.batch_first) x = x.transpose(0, 1);
  }

  Inputs of(std::size_t index) const {
    return parameters.subspan(index * kParameters, kParameters);
  }

 private:
  void require(Inputs in) const {
    if (layers == 0 || layers * directions * kParameters != parameters.size())
      fail<ValueError>(name,
                       {.what = "the number of weights does not fit",
                        .got = str(parameters.size() / kParameters),
                        .expected = directions == 2 ? "two for each layer, one for each direction"
                                                    : "one for each layer"});
    if (x.dim() != 3)
      fail<ShapeError>(name, {.what = "the input must have 3 dimensions",
                              .got = str(x),
                              .expected = attrs.batch_first ? "[N, T, in]" : "[T, N, in]"});
    const bool fits = attrs.dropout >= 0 && attrs.dropout <= 1;
    if (!fits)
      fail<ValueError>(name,
                       {.what = "bad dropout", .got = str(attrs.dropout), .expected = "0..1"});
    require_one_floating_dtype(name, in);
    const auto count = static_cast<std::int64_t>(layers * directions);
    for (const Tensor& state : {h0, c0})
      if (state.defined() && (state.dim() != 3 || state.shape()[0] != count))
        fail<ShapeError>(name, {.what = "an initial state does not fit the layers",
                                .got = str(state),
                                .expected = str("[", count, ", N, size]")});
    require_weights();
  }

  /** Throws, before the first layer runs, what a later layer would throw. */
  void require_weights() const {
    std::int64_t features = x.shape()[2];
    for (std::size_t layer = 0; layer < layers; ++layer) {
      std::int64_t out = 0;
      for (std::size_t d = 0; d < directions; ++d) {
        const Inputs w = of(layer * directions + d);
        op::require_weights(name, kind, w[0], w[1], w[4]);
        if (layer == 0 && w[0].dim() == 2 && w[0].shape()[1] != features)
          fail<ShapeError>(name,
                           {.what = "the input has the wrong number of features",
                            .got = str("input ", str(x), " and weight_ih of layer 0 ", str(w[0])),
                            .expected = str(w[0].shape()[1], " features")});
        if (w[0].dim() != 2 || w[0].shape()[1] != features || w[1].dim() != 2)
          fail<ShapeError>(name, {.what = str("weights of layer ", layer, " do not fit its input"),
                                  .got = str(str(w[0]), " and ", w[1]),
                                  .expected = str("[.., ", features, "] and a matrix")});
        out += w[1].shape()[1];
      }
      features = out;
    }
  }
};

std::vector<Tensor> stacked(CellKind kind, std::string_view name, Inputs in,
                            const RecurrentStackAttrs& attrs) {
  const LayerStack stack_of(kind, name, in, attrs);
  Tensor x = stack_of.x;
  std::vector<Tensor> last_h, last_c;
  for (std::size_t l = 0; l < stack_of.layers; ++l) {
    if (l > 0) x = dropout(x, {.p = attrs.dropout});
    std::vector<Tensor> results;
    for (std::size_t d = 0; d < stack_of.directions; ++d) {
      const std::size_t index = l * stack_of.directions + d;
      const auto state = [&](const Tensor& all) {
        return all.defined() ? all.select(0, static_cast<std::int64_t>(index)) : Tensor{};
      };
      const Inputs w = stack_of.of(index);
      const std::array<Tensor, 8> operands{
          x, state(stack_of.h0), state(stack_of.c0), w[0], w[1], w[2], w[3], w[4]};
      const auto out = layer(
          operands, {.kind = kind, .reverse = d == 1, .lengths = attrs.lengths, .name = name});
      results.push_back(out[0]);
      last_h.push_back(out[1]);
      last_c.push_back(out[2]);
    }
    x = results.size() == 1 ? results[0] : cat(results, 2);
  }
  if (attrs.batch_first) x = x.transpose(0, 1);
  if (kind != CellKind::lstm) return {x, stack(last_h)};
  return {x, stack(last_h), stack(last_c)};
}

}  // namespace

#define MZ_RECURRENT_BODY(Struct, kind)                                  \
  std::vector<Tensor> Struct::composite(Inputs in, const Attrs& attrs) { \
    return stacked(CellKind::kind, traits.name, in, attrs);              \
  }                                                                      \
  std::vector<Tensor> Struct##Cell::composite(Inputs in, const Attrs&) { \
    return cell(CellKind::kind, traits.name, in);                        \
  }
MZ_RECURRENT_BODY(Gru, gru)
MZ_RECURRENT_BODY(Lstm, lstm)
MZ_RECURRENT_BODY(RnnRelu, rnn_relu)
MZ_RECURRENT_BODY(RnnTanh, rnn_tanh)
#undef MZ_RECURRENT_BODY

}  // namespace mezzo::op
