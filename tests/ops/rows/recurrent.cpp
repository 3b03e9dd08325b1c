// Rows of the recurrent cells and layers.
#include "../row.h"
#include "letters.h"

using namespace rows;
using namespace mezzo;

namespace {

enum class Kind { tanh, relu, gru, lstm };

std::size_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/** The state of one sequence in one layer. */
struct State {
  std::vector<double> h, c;
};

/** The parameters of one layer and direction; null where absent. */
struct Parameters {
  const Array *w_ih, *w_hh, *b_ih = nullptr, *b_hh = nullptr, *w_hr = nullptr;
};

/** Computes w x + b for one gate_row of gates. */
double gate_row(const Array& w, const Array* b, std::size_t r, const std::vector<double>& x) {
  double sum = b ? (*b)[static_cast<std::int64_t>(r)] : 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += w[static_cast<std::int64_t>(r * x.size() + i)] * x[i];
  return sum;
}

State advance(Kind kind, const Parameters& p, const std::vector<double>& x, const State& s) {
  const std::size_t hidden = static_cast<std::size_t>(p.w_ih->shape[0]) / gates_of(kind);
  const auto from_x = [&](std::size_t gate, std::size_t u) {
    return gate_row(*p.w_ih, p.b_ih, gate * hidden + u, x);
  };
  const auto from_h = [&](std::size_t gate, std::size_t u) {
    return gate_row(*p.w_hh, p.b_hh, gate * hidden + u, s.h);
  };
  const auto both = [&](std::size_t gate, std::size_t u) {
    return from_x(gate, u) + from_h(gate, u);
  };
  State next{std::vector<double>(hidden), std::vector<double>(hidden)};
  for (std::size_t u = 0; u < hidden; ++u) {
    if (kind == Kind::tanh) next.h[u] = std::tanh(both(0, u));
    if (kind == Kind::relu) next.h[u] = std::max(0.0, both(0, u));
    if (kind == Kind::gru) {
      const double r = sigmoid(both(0, u)), z = sigmoid(both(1, u));
      next.h[u] = (1 - z) * std::tanh(from_x(2, u) + r * from_h(2, u)) + z * s.h[u];
    }
    if (kind == Kind::lstm) {
      next.c[u] = sigmoid(both(1, u)) * s.c[u] + sigmoid(both(0, u)) * std::tanh(both(2, u));
      next.h[u] = sigmoid(both(3, u)) * std::tanh(next.c[u]);
    }
  }
  if (!p.w_hr) return next;
  std::vector<double> projected(static_cast<std::size_t>(p.w_hr->shape[0]));
  for (std::size_t u = 0; u < projected.size(); ++u)
    projected[u] = gate_row(*p.w_hr, nullptr, u, next.h);
  next.h = projected;
  return next;
}

/** How layers are called. Operands: x, states, and for each layer and direction weights, biases, a
 *  projection, as far as they are there. */
struct RecurrentSetting {
  Kind kind;
  bool states = true, bias = true, projection = false, bidirectional = false, batch_first = false;
  std::vector<std::int64_t> lengths = {};
  double dropout = 0;
};

std::size_t parameters_per_layer(const RecurrentSetting& s) {
  return 2 + (s.bias ? 2 : 0) + (s.projection ? 1 : 0);
}
std::size_t num_states(const RecurrentSetting& s) {
  return !s.states ? 0 : s.kind == Kind::lstm ? 2 : 1;
}

/** Calls take(w_ih, w_hh, b_ih, b_hh, w_hr) for each layer and direction. The operands begin with x
 *  and the states. */
template <class X, class F>
void for_each_layer(const RecurrentSetting& s, const std::vector<X>& x, F&& take) {
  const std::size_t step = parameters_per_layer(s);
  for (std::size_t i = 1 + num_states(s); i < x.size(); i += step)
    take(x[i], x[i + 1], s.bias ? &x[i + 2] : nullptr, s.bias ? &x[i + 3] : nullptr,
         s.projection ? &x[i + step - 1] : nullptr);
}

std::vector<RecurrentWeights> weights_of(const RecurrentSetting& s, const std::vector<Tensor>& x) {
  std::vector<RecurrentWeights> weights;
  const auto at = [](const Tensor* t) { return t ? *t : Tensor{}; };
  for_each_layer(s, x,
                 [&](const Tensor& a, const Tensor& b, const Tensor* c, const Tensor* d,
                     const Tensor* e) { weights.push_back({a, b, at(c), at(d), at(e)}); });
  return weights;
}

using Steps = std::vector<std::vector<std::vector<double>>>;  // [time][sequence][feature]

/** Computes all layers in plain loops, one sequence at a time. */
std::vector<Array> layers_oracle(const RecurrentSetting& s, const std::vector<Array>& x) {
  std::vector<Parameters> layers;
  for_each_layer(
      s, x, [&](const Array& a, const Array& b, const Array* c, const Array* d, const Array* e) {
        layers.push_back({&a, &b, c, d, e});
      });
  const int time_dim = s.batch_first ? 1 : 0;
  const auto steps = static_cast<std::size_t>(x[0].shape[time_dim]),
             batch = static_cast<std::size_t>(x[0].shape[1 - time_dim]);
  const auto features = static_cast<std::size_t>(x[0].shape[2]);
  Steps in(steps, std::vector<std::vector<double>>(batch, std::vector<double>(features)));
  for (std::size_t t = 0; t < steps; ++t)
    for (std::size_t n = 0; n < batch; ++n)
      for (std::size_t i = 0; i < features; ++i)
        in[t][n][i] = x[0][static_cast<std::int64_t>(
            ((s.batch_first ? n * steps + t : t * batch + n)) * features + i)];
  const std::size_t directions = s.bidirectional ? 2 : 1;
  std::vector<double> last_h, last_c;
  std::size_t size = 0, hidden = 0;
  for (std::size_t l = 0; l < layers.size(); l += directions) {
    Steps out(steps, std::vector<std::vector<double>>(batch));
    for (std::size_t d = 0; d < directions; ++d) {
      const Parameters& p = layers[l + d];
      hidden = static_cast<std::size_t>(p.w_ih->shape[0]) / gates_of(s.kind);
      size = static_cast<std::size_t>(p.w_hh->shape[1]);
      for (std::size_t n = 0; n < batch; ++n) {
        State state{std::vector<double>(size), std::vector<double>(hidden)};
        for (std::size_t u = 0; u < size && s.states; ++u)
          state.h[u] = x[1][static_cast<std::int64_t>(((l + d) * batch + n) * size + u)];
        for (std::size_t u = 0; u < hidden && s.states && s.kind == Kind::lstm; ++u)
          state.c[u] = x[2][static_cast<std::int64_t>(((l + d) * batch + n) * hidden + u)];
        const std::size_t length =
            s.lengths.empty() ? steps : static_cast<std::size_t>(s.lengths[n]);
        std::vector<std::vector<double>> results(steps, std::vector<double>(size));
        for (std::size_t k = 0; k < length; ++k) {
          const std::size_t t = d == 0 ? k : length - 1 - k;
          state = advance(s.kind, p, in[t][n], state);
          results[t] = state.h;
        }
        for (std::size_t t = 0; t < steps; ++t)
          out[t][n].insert(out[t][n].end(), results[t].begin(), results[t].end());
        last_h.insert(last_h.end(), state.h.begin(), state.h.end());
        last_c.insert(last_c.end(), state.c.begin(), state.c.end());
      }
    }
    in = out;
  }
  const auto i = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  Array y{s.batch_first ? Shape{i(batch), i(steps), i(size * directions)}
                        : Shape{i(steps), i(batch), i(size * directions)},
          {}};
  for (std::size_t a = 0; a < (s.batch_first ? batch : steps); ++a)
    for (std::size_t b = 0; b < (s.batch_first ? steps : batch); ++b) {
      const std::vector<double>& values = s.batch_first ? in[b][a] : in[a][b];
      y.values.insert(y.values.end(), values.begin(), values.end());
    }
  std::vector<Array> results{y, {{i(layers.size()), i(batch), i(size)}, last_h}};
  if (s.kind == Kind::lstm) results.push_back({{i(layers.size()), i(batch), i(hidden)}, last_c});
  return results;
}

Tensors call_layers(const Tensors& x, const RecurrentSetting& s) {
  const Tensor h = s.states ? x[1] : Tensor{},
               c = s.states && s.kind == Kind::lstm ? x[2] : Tensor{};
  const RecurrentOptions options{.batch_first = s.batch_first,
                                 .bidirectional = s.bidirectional,
                                 .dropout = s.dropout,
                                 .lengths = s.lengths};
  const std::vector<RecurrentWeights> w = weights_of(s, x);
  if (s.kind == Kind::lstm) {
    const LstmResult r = lstm(x[0], {h, c}, w, options);
    return {r.output, r.h, r.c};
  }
  const RecurrentResult r = s.kind == Kind::gru    ? gru(x[0], h, w, options)
                            : s.kind == Kind::relu ? rnn_relu(x[0], h, w, options)
                                                   : rnn_tanh(x[0], h, w, options);
  return {r.output, r.h};
}

std::string name_of(Kind kind) {
  return kind == Kind::lstm   ? "lstm"
         : kind == Kind::gru  ? "gru"
         : kind == Kind::relu ? "rnn_relu"
                              : "rnn_tanh";
}

struct LayerSizes {
  std::int64_t steps, batch, in, hidden, projection = 0, layers = 1;
};

/** Returns the operands' shapes for a stack of layers. */
std::vector<Shape> shapes_of(const RecurrentSetting& s, const LayerSizes& z) {
  const auto gates = static_cast<std::int64_t>(gates_of(s.kind));
  const std::int64_t size = s.projection ? z.projection : z.hidden,
                     directions = s.bidirectional ? 2 : 1;
  std::vector<Shape> shapes{s.batch_first ? Shape{z.batch, z.steps, z.in}
                                          : Shape{z.steps, z.batch, z.in}};
  if (s.states) shapes.push_back({z.layers * directions, z.batch, size});
  if (s.states && s.kind == Kind::lstm)
    shapes.push_back({z.layers * directions, z.batch, z.hidden});
  for (std::int64_t l = 0; l < z.layers * directions; ++l) {
    shapes.push_back({gates * z.hidden, l < directions ? z.in : size * directions});
    shapes.push_back({gates * z.hidden, size});
    if (s.bias) shapes.insert(shapes.end(), {Shape{gates * z.hidden}, Shape{gates * z.hidden}});
    if (s.projection) shapes.push_back({size, z.hidden});
  }
  return shapes;
}

void test_layers(Row<RecurrentSetting>& row, const std::string& variant, const RecurrentSetting& s,
                 const std::vector<LayerSizes>& sizes) {
  std::vector<std::vector<Shape>> shapes;
  for (const LayerSizes& z : sizes) shapes.push_back(shapes_of(s, z));
  const std::size_t operands = shapes[0].size();
  row.test({.variant = variant,
            .oracle = [s](const std::vector<Array>& x) { return layers_oracle(s, x); },
            .operands = std::vector<Operand>(operands, Operand{.low = -0.7, .high = 0.7}),
            .shapes = std::move(shapes),
            .factor = 40},
           s);
}

Oracle cell_oracle(Kind kind, bool bias) {
  return [=](const std::vector<Array>& given) {
    std::vector<Array> x = given;
    const std::size_t states = kind == Kind::lstm ? 2 : 1;
    for (std::size_t k = 0; k <= states; ++k) x[k].shape.insert(0, 1);
    std::vector<Array> results = layers_oracle({.kind = kind, .bias = bias}, x);
    results.erase(results.begin());
    for (Array& r : results) r.shape.erase(0);
    return results;
  };
}

// ---- arguments of the fuzzer --------------------------------------------------------------------

struct Recurrence {
  Tensor x, h, c;
  std::vector<RecurrentWeights> weights;
  RecurrentOptions options;
  std::int64_t batch, hidden;
};

Recurrence recurrence(FuzzDraw& d, std::int64_t gates, bool cell) {
  Recurrence r;
  Letters s(d);
  const std::int64_t in = s.n[2], layers = cell ? 1 : 1 + d.below(2);
  r.batch = s.n[1];
  r.hidden = s.n[3];
  r.options.batch_first = !cell && d.flag();
  r.options.bidirectional = !cell && d.flag();
  if (d.chance(0.2)) r.options.dropout = d.real(-0.2, 1.2);
  r.x = cell ? s({1, 2}) : r.options.batch_first ? s({1, 0, 2}) : s({0, 1, 2});
  const std::int64_t directions = r.options.bidirectional ? 2 : 1;
  if (!cell && d.chance(0.3))
    for (std::int64_t i = 0; i < r.batch; ++i) r.options.lengths.push_back(d.number(0, s.n[0]));
  for (std::int64_t i = 0; i < layers * directions; ++i) {
    const std::int64_t from = i < directions ? in : directions * r.hidden;
    RecurrentWeights w{d.tensor({gates * r.hidden, from}, s.dtype),
                       d.tensor({gates * r.hidden, r.hidden}, s.dtype)};
    w.bias_ih = d.optional({gates * r.hidden}, s.dtype);
    w.bias_hh = d.optional({gates * r.hidden}, s.dtype);
    r.weights.push_back(w);
  }
  Shape state{r.batch, r.hidden};
  if (!cell) state.insert(0, layers * directions);
  r.h = d.optional(state, s.dtype);
  r.c = d.optional(state, s.dtype);
  return r;
}

/** Returns the shapes of the output and the last states. */
Expected recurrent_results(const Recurrence& r, int states) {
  if (r.x.dim() != 3) return refused();
  Sizes output = sizes(r.x);
  output.back() = Wide{r.hidden} * (r.options.bidirectional ? 2 : 1);
  std::vector<Sizes> all{output};
  const Wide batch = r.x.shape()[r.options.batch_first ? 0 : 1];
  for (int i = 0; i < states; ++i)
    all.push_back({static_cast<Wide>(r.weights.size()), batch, r.hidden});
  return all;
}

Expected cell_results(const Recurrence& r, int states) {
  if (r.x.dim() != 2) return refused();
  return std::vector<Sizes>(static_cast<std::size_t>(states), {r.x.shape()[0], r.hidden});
}

/** Draws a call of layers or of a cell. */
auto drawn(Kind kind, bool cell) {
  return [=](FuzzDraw& d, const auto& call) {
    const Recurrence r = recurrence(d, static_cast<std::int64_t>(gates_of(kind)), cell);
    const int states = kind == Kind::lstm ? 2 : 1;
    Tensors x{r.x, r.h};
    if (states == 2) x.push_back(r.c);
    for (const RecurrentWeights& w : r.weights)
      x.insert(x.end(), {w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh});
    if constexpr (std::is_invocable_v<decltype(call), Tensors>)
      return Trial{call(x), cell_results(r, states)};
    else
      return Trial{call(x, {.kind = kind,
                            .bidirectional = r.options.bidirectional,
                            .batch_first = r.options.batch_first,
                            .lengths = r.options.lengths,
                            .dropout = r.options.dropout}),
                   recurrent_results(r, states)};
  };
}

// ---- rows ---------------------------------------------------------------------------------------

/** Allows cuDNN for recurrent layers, which is nondeterministic. */
struct Nondeterministic {
  Nondeterministic() { set_allow_nondeterministic(true); }
  ~Nondeterministic() { set_allow_nondeterministic(false); }
  Nondeterministic(const Nondeterministic&) = delete;
  Nondeterministic& operator=(const Nondeterministic&) = delete;
};

/** Lines of one layer without states. */
Smoke smoke_layer(Kind kind, bool backward) {
  const auto gates = static_cast<std::int64_t>(gates_of(kind));
  const auto sizes = [](const Maker& make) {
    return LayerSizes{make.pick(3, 8, 128), make.pick(2, 4, 64), make.pick(8, 64, 512),
                      make.pick(8, 64, 512)};
  };
  return {.name = name_of(kind) + (backward ? " % backward" : " % forward"),
          .dtypes = {f32, f16},
          .operands =
              [=](const Maker& make, DType dtype) {
                const LayerSizes z = sizes(make);
                Tensors x{make.normal({z.steps, z.batch, z.in}, dtype)};
                for (const Shape& shape :
                     {Shape{gates * z.hidden, z.in}, Shape{gates * z.hidden, z.hidden},
                      Shape{gates * z.hidden}, Shape{gates * z.hidden}})
                  x.push_back(make.normal(shape, dtype) * 0.1);
                return x;
              },
          .passes = 0,
          .factor = 8,  // every step rounds its state
          .backward = backward,
          .by_library = true,
          .may_vary = true,
          .flops =
              [=](const Tensors& x) {
                const double flops = 4.0 * static_cast<double>(x[0].size(0) * x[0].size(1) * gates *
                                                               x[0].size(2) * x[0].size(2));
                return backward ? 2 * flops : flops;
              }};
}

/** PyTorch's call of layers, on operands x, states and weights. */
std::string torch_layers(Kind kind, bool two_both) {
  const bool is_lstm = kind == Kind::lstm;
  return str("lambda x, h, ", is_lstm ? "c, " : "", "*w: torch._VF.", name_of(kind),
             is_lstm ? "(x, (h, c), w, True, " : "(x, h, w, True, ",
             two_both ? "2, 0., False, True, True)" : "1, 0., False, False, False)");
}

/** Adds the layers of a kind; `short_name` is the name in PyTorch without the function. */
Row<RecurrentSetting> add_layers(Kind kind, const std::string& short_name) {
  const bool is_lstm = kind == Kind::lstm;
  const std::string state = is_lstm ? "real(1, 2, 4), real(1, 2, 4)" : "real(1, 2, 4)",
                    states = is_lstm ? "real(4, 2, 2), real(4, 2, 2)" : "real(4, 2, 2)";
  const auto weights = [&](const char* rest) {
    return "*layer('" + short_name + "', 4, " + rest + ")";
  };
  auto layers =
      row(name_of(kind), CALL(call_layers(x, s), const RecurrentSetting& s))
          .fuzz(drawn(kind, false))
          .golden({"", torch_layers(kind, false), "real(3, 2, 3), " + state + ", " + weights("4")},
                  {.kind = kind})
          .golden({"two layers, both directions", torch_layers(kind, true),
                   "real(2, 3, 3), " + states + ", " + weights("2") + ", " + weights("2") + ", " +
                       weights("2, 4") + ", " + weights("2, 4")},
                  {.kind = kind, .bidirectional = true, .batch_first = true});
  test_layers(layers, "", {.kind = kind}, {{3, 2, 3, 4}, {1, 1, 1, 1}, {2, 0, 2, 3}, {0, 2, 2, 3}});
  test_layers(layers, "two layers", {.kind = kind}, {{2, 3, 2, 3, 0, 2}});
  test_layers(layers, "no states, no bias", {.kind = kind, .states = false, .bias = false},
              {{3, 2, 2, 3}});
  test_layers(layers, "both directions, packed, batch first",
              {.kind = kind, .bidirectional = true, .batch_first = true, .lengths = {2, 4, 1}},
              {{4, 3, 2, 2, 0, 2}});
  if (kind == Kind::relu) return layers;
  auto varying = row(name_of(kind), [](const Tensors& x, const RecurrentSetting& s) {
    const Nondeterministic scope;
    return call_layers(x, s);
  });
  for (const bool backward : {false, true})
    varying.smoke(smoke_layer(kind, backward), {.kind = kind, .states = false});
  return layers;
}

const Rows layer_rows("sequence", [] {
  add_layers(Kind::tanh, "rnn");
  add_layers(Kind::relu, "rnn");
  add_layers(Kind::gru, "gru");
  auto lstm_layers =
      add_layers(Kind::lstm, "lstm")
          .golden({"projection", torch_layers(Kind::lstm, false),
                   "real(3, 2, 3), real(1, 2, 2), real(1, 2, 4), *layer('lstm', 4, 4, 3, 2)"},
                  {.kind = Kind::lstm, .projection = true});
  test_layers(lstm_layers, "projected",
              {.kind = Kind::lstm, .projection = true, .bidirectional = true},
              {{3, 2, 2, 3, 2, 2}});
  test_layers(lstm_layers, "projected, packed",
              {.kind = Kind::lstm, .projection = true, .lengths = {1, 3}}, {{3, 2, 2, 3, 2}});
});

/** Adds the case of a cell, with or without biases. */
Row<>& test_cell(Row<>& row, Kind kind, bool bias) {
  const auto gates = static_cast<std::int64_t>(gates_of(kind));
  std::vector<std::vector<Shape>> shapes;
  for (const LayerSizes& z : {LayerSizes{1, 3, 4, 5}, LayerSizes{1, 1, 1, 1},
                              LayerSizes{1, 2, 3, 35}, LayerSizes{1, 0, 2, 3}}) {
    if (z.hidden > 5 && kind != Kind::tanh) continue;
    std::vector<Shape> s{{z.batch, z.in}, {z.batch, z.hidden}};
    if (kind == Kind::lstm) s.push_back({z.batch, z.hidden});
    s.insert(s.end(), {Shape{gates * z.hidden, z.in}, Shape{gates * z.hidden, z.hidden}});
    if (bias) s.insert(s.end(), {Shape{gates * z.hidden}, Shape{gates * z.hidden}});
    shapes.push_back(s);
  }
  const std::size_t operands = shapes[0].size();
  return row.test({.variant = bias ? "" : "no bias",
                   .oracle = cell_oracle(kind, bias),
                   .operands = std::vector<Operand>(operands, Operand{.low = -0.7, .high = 0.7}),
                   .shapes = std::move(shapes),
                   .factor = 20});
}

/** The weights and biases of a cell, from operand `first` on. */
RecurrentWeights cell_weights(const Tensors& x, std::size_t first = 2) {
  return {x[first], x[first + 1], optional(x, first + 2), optional(x, first + 3)};
}

/** Adds a cell of one state. */
Row<> add_cell(Kind kind, Tensor (*f)(const Tensor&, const Tensor&, const RecurrentWeights&),
               const std::string& short_name) {
  const std::string op = name_of(kind) + "_cell";
  auto cell =
      row(op, [f](const Tensors& x) { return Tensors{f(x[0], x[1], cell_weights(x))}; })
          .fuzz(drawn(kind, true))
          .golden({"", "torch." + op, "real(2, 3), real(2, 4), *layer('" + short_name + "', 4, 4)"})
          .golden({"without bias", "torch." + op,
                   "real(2, 3), real(2, 4), *layer('" + short_name + "', 2, 4)"});
  return test_cell(cell, kind, true);
}

const Rows cell_rows("sequence", [] {
  add_cell(Kind::tanh, rnn_tanh_cell, "rnn");
  add_cell(Kind::relu, rnn_relu_cell, "rnn");
  Row<> gru_row = add_cell(Kind::gru, gru_cell, "gru");
  test_cell(gru_row, Kind::gru, false);
  auto lstm_row = row("lstm_cell",
                      [](const Tensors& x) {
                        const LstmState s = lstm_cell(x[0], {x[1], x[2]}, cell_weights(x, 3));
                        return Tensors{s.h, s.c};
                      })
                      .fuzz(drawn(Kind::lstm, true))
                      .golden({"", "lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w)",
                               "real(2, 3), real(2, 4), real(2, 4), *layer('lstm', 4, 4)"});
  test_cell(lstm_row, Kind::lstm, true);
});

}  // namespace
