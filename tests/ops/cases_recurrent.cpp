// Cases of the recurrent cells and layers.
#include "cases.h"

using namespace cases;
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

/** Computes w x + b for one row of gates. */
double row(const Array& w, const Array* b, std::size_t r, const std::vector<double>& x) {
  double sum = b ? (*b)[static_cast<std::int64_t>(r)] : 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += w[static_cast<std::int64_t>(r * x.size() + i)] * x[i];
  return sum;
}

State advance(Kind kind, const Parameters& p, const std::vector<double>& x, const State& s) {
  const std::size_t hidden = static_cast<std::size_t>(p.w_ih->shape[0]) / gates_of(kind);
  const auto from_x = [&](std::size_t gate, std::size_t u) {
    return row(*p.w_ih, p.b_ih, gate * hidden + u, x);
  };
  const auto from_h = [&](std::size_t gate, std::size_t u) {
    return row(*p.w_hh, p.b_hh, gate * hidden + u, s.h);
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
    projected[u] = row(*p.w_hr, nullptr, u, next.h);
  next.h = projected;
  return next;
}

struct Setting {
  Kind kind;
  bool states = true, bias = true, projection = false, bidirectional = false, batch_first = false;
  std::vector<std::int64_t> lengths = {};
};

std::size_t parameters_per_layer(const Setting& s) {
  return 2 + (s.bias ? 2 : 0) + (s.projection ? 1 : 0);
}
std::size_t num_states(const Setting& s) { return !s.states ? 0 : s.kind == Kind::lstm ? 2 : 1; }

/** Calls take(w_ih, w_hh, b_ih, b_hh, w_hr) for each layer and direction. The operands begin with x
 *  and the states. */
template <class X, class F>
void for_each_layer(const Setting& s, const std::vector<X>& x, F&& take) {
  const std::size_t step = parameters_per_layer(s);
  for (std::size_t i = 1 + num_states(s); i < x.size(); i += step)
    take(x[i], x[i + 1], s.bias ? &x[i + 2] : nullptr, s.bias ? &x[i + 3] : nullptr,
         s.projection ? &x[i + step - 1] : nullptr);
}

std::vector<RecurrentWeights> weights_of(const Setting& s, const std::vector<Tensor>& x) {
  std::vector<RecurrentWeights> weights;
  const auto at = [](const Tensor* t) { return t ? *t : Tensor{}; };
  for_each_layer(
      s, x,
      [&](const Tensor& a, const Tensor& b, const Tensor* c, const Tensor* d, const Tensor* e) {
        weights.push_back({a, b, at(c), at(d), at(e)});
      });
  return weights;
}

using Steps = std::vector<std::vector<std::vector<double>>>;  // [time][sequence][feature]

/** Computes all layers in plain loops, one sequence at a time. */
std::vector<Array> layers_oracle(const Setting& s, const std::vector<Array>& x) {
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

std::vector<Tensor> call_layers(const Setting& s, const std::vector<Tensor>& x) {
  const Tensor h = s.states ? x[1] : Tensor{},
               c = s.states && s.kind == Kind::lstm ? x[2] : Tensor{};
  const RecurrentOptions options{
      .batch_first = s.batch_first, .bidirectional = s.bidirectional, .lengths = s.lengths};
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

struct Sizes {
  std::int64_t steps, batch, in, hidden, projection = 0, layers = 1;
};

/** Returns the operands' shapes for a stack of layers. */
std::vector<Shape> shapes_of(const Setting& s, const Sizes& z) {
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

void add_layers(const std::string& variant, const Setting& s, const std::vector<Sizes>& sizes) {
  std::vector<std::vector<Shape>> shapes;
  for (const Sizes& z : sizes) shapes.push_back(shapes_of(s, z));
  const std::size_t operands = shapes[0].size();
  add_case({.op = name_of(s.kind),
            .variant = variant,
            .call = [s](const std::vector<Tensor>& x) { return call_layers(s, x); },
            .oracle = [s](const std::vector<Array>& x) { return layers_oracle(s, x); },
            .operands = std::vector<Operand>(operands, Operand{.low = -0.7, .high = 0.7}),
            .shapes = std::move(shapes),
            .factor = 40});
}

const Registrar layers([] {
  const std::vector<Kind> kinds = {Kind::tanh, Kind::relu, Kind::gru, Kind::lstm};
  for (const Kind kind : kinds) {
    add_layers("", {.kind = kind}, {{3, 2, 3, 4}, {1, 1, 1, 1}, {2, 0, 2, 3}, {0, 2, 2, 3}});
    add_layers("two layers", {.kind = kind}, {{2, 3, 2, 3, 0, 2}});
    add_layers("no states, no bias", {.kind = kind, .states = false, .bias = false},
               {{3, 2, 2, 3}});
    add_layers("both directions, packed, batch first",
               {.kind = kind, .bidirectional = true, .batch_first = true, .lengths = {2, 4, 1}},
               {{4, 3, 2, 2, 0, 2}});
  }
  add_layers("projected", {.kind = Kind::lstm, .projection = true, .bidirectional = true},
             {{3, 2, 2, 3, 2, 2}});
  add_layers("projected, packed", {.kind = Kind::lstm, .projection = true, .lengths = {1, 3}},
             {{3, 2, 2, 3, 2}});
});

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

const Registrar cells([] {
  const auto add = [](const std::string& op, Kind kind, bool bias, Call call) {
    const auto gates = static_cast<std::int64_t>(gates_of(kind));
    std::vector<std::vector<Shape>> shapes;
    for (const Sizes& z :
         {Sizes{1, 3, 4, 5}, Sizes{1, 1, 1, 1}, Sizes{1, 2, 3, 35}, Sizes{1, 0, 2, 3}}) {
      if (z.hidden > 5 && kind != Kind::tanh) continue;
      std::vector<Shape> s{{z.batch, z.in}, {z.batch, z.hidden}};
      if (kind == Kind::lstm) s.push_back({z.batch, z.hidden});
      s.insert(s.end(), {Shape{gates * z.hidden, z.in}, Shape{gates * z.hidden, z.hidden}});
      if (bias) s.insert(s.end(), {Shape{gates * z.hidden}, Shape{gates * z.hidden}});
      shapes.push_back(s);
    }
    const std::size_t operands = shapes[0].size();
    add_case({.op = op,
              .variant = bias ? "" : "no bias",
              .call = std::move(call),
              .oracle = cell_oracle(kind, bias),
              .operands = std::vector<Operand>(operands, Operand{.low = -0.7, .high = 0.7}),
              .shapes = std::move(shapes),
              .factor = 20});
  };
  add("rnn_tanh_cell", Kind::tanh, true, CALL(rnn_tanh_cell(x[0], x[1], {x[2], x[3], x[4], x[5]})));
  add("rnn_relu_cell", Kind::relu, true, CALL(rnn_relu_cell(x[0], x[1], {x[2], x[3], x[4], x[5]})));
  add("gru_cell", Kind::gru, true, CALL(gru_cell(x[0], x[1], {x[2], x[3], x[4], x[5]})));
  add("gru_cell", Kind::gru, false, CALL(gru_cell(x[0], x[1], {x[2], x[3]})));
  add("lstm_cell", Kind::lstm, true, [](const std::vector<Tensor>& x) {
    const LstmState s = lstm_cell(x[0], {x[1], x[2]}, {x[3], x[4], x[5], x[6]});
    return std::vector<Tensor>{s.h, s.c};
  });
});

}  // namespace
