// Recurrent layers of every kind, on the device and on the CPU.
#pragma once

#include "alike.h"

namespace recurrent {

using namespace alike;

/** Allows nondeterministic algorithms until the end of the scope. */
struct AnyBits {
  AnyBits() { set_allow_nondeterministic(true); }
  ~AnyBits() { set_allow_nondeterministic(false); }
};

enum class Kind { tanh, relu, gru, lstm };

struct Case {
  Kind kind;
  std::int64_t steps = 4, batch = 3, features = 5, hidden = 6, projected = 0;
  bool biases = true, states = true, bidirectional = false;
  std::vector<std::int64_t> lengths = {};
};

inline const std::vector<Case> kCases{
    {.kind = Kind::tanh},
    {.kind = Kind::relu, .states = false},
    {.kind = Kind::gru},
    {.kind = Kind::gru, .biases = false, .bidirectional = true},
    {.kind = Kind::lstm},
    {.kind = Kind::lstm, .biases = false, .states = false},
    {.kind = Kind::lstm, .projected = 4},
    {.kind = Kind::lstm, .projected = 2, .bidirectional = true},
    {.kind = Kind::lstm, .batch = 1, .features = 1, .hidden = 1},
    {.kind = Kind::lstm, .lengths = {2, 4, 1}},
    {.kind = Kind::gru, .bidirectional = true, .lengths = {4, 4, 4}},
};

inline std::int64_t gates(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

/** Returns x, states, and the weights of each direction. */
inline std::vector<Tensor> operands_of(const Case& c, DType dtype) {
  manual_seed(4);
  const std::int64_t columns = gates(c.kind) * c.hidden,
                     size = c.projected > 0 ? c.projected : c.hidden,
                     directions = c.bidirectional ? 2 : 1;
  std::vector<Tensor> all{randn({c.steps, c.batch, c.features})};
  if (c.states) all.push_back(randn({directions, c.batch, size}) * 0.5);
  if (c.states && c.kind == Kind::lstm) all.push_back(randn({directions, c.batch, c.hidden}) * 0.5);
  for (std::int64_t d = 0; d < directions; ++d) {
    all.push_back(randn({columns, c.features}) * 0.3);
    all.push_back(randn({columns, size}) * 0.3);
    if (c.biases) all.insert(all.end(), {randn({columns}) * 0.3, randn({columns}) * 0.3});
    if (c.projected > 0) all.push_back(randn({size, c.hidden}) * 0.3);
  }
  for (Tensor& x : all) x = x.to(dtype);
  return all;
}

/** Returns output and last states, concatenated. */
inline Tensor layer(const Case& c, const std::vector<Tensor>& t) {
  std::size_t i = 1;
  const auto next = [&](bool there) { return there ? t[i++] : Tensor{}; };
  const Tensor h0 = next(c.states), c0 = next(c.states && c.kind == Kind::lstm);
  std::vector<RecurrentWeights> weights;
  while (i < t.size()) {
    RecurrentWeights w{t[i], t[i + 1]};
    i += 2;
    w.bias_ih = next(c.biases);
    w.bias_hh = next(c.biases);
    w.weight_hr = next(c.projected > 0);
    weights.push_back(w);
  }
  const RecurrentOptions options{.bidirectional = c.bidirectional, .lengths = c.lengths};
  const auto flat = [](const Tensor& x) { return x.reshape({x.numel()}); };
  if (c.kind == Kind::lstm) {
    const LstmResult r = lstm(t[0], {h0, c0}, weights, options);
    return cat({flat(r.output), flat(r.h), flat(r.c)});
  }
  const RecurrentResult r = c.kind == Kind::gru    ? gru(t[0], h0, weights, options)
                            : c.kind == Kind::tanh ? rnn_tanh(t[0], h0, weights, options)
                                                   : rnn_relu(t[0], h0, weights, options);
  return cat({flat(r.output), flat(r.h)});
}

inline double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 2e-2 : 1e-1;
}

inline void check_against_cpu(const Case& c, DType dtype) {
  check_alike(
      operands_of(c, dtype), [&](const std::vector<Tensor>& t) { return layer(c, t); },
      tolerance(dtype));
}

}  // namespace recurrent
