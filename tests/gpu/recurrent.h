// Recurrent layers of every kind, on the device and on the CPU.
#pragma once

#include "../../cuda/own_kernels.h"
#include "alike.h"
#include "unverified.h"

namespace recurrent {

using namespace alike;

enum class CellKind { tanh, relu, gru, lstm };

struct LayerCase {
  CellKind kind;
  std::int64_t steps = 4, batch = 3, features = 5, hidden = 6, projected = 0;
  bool biases = true, states = true, bidirectional = false;
  std::vector<std::int64_t> lengths = {};
};

inline const std::vector<LayerCase> kLayerCases{
    {.kind = CellKind::tanh},
    {.kind = CellKind::relu, .states = false},
    {.kind = CellKind::gru},
    {.kind = CellKind::gru, .biases = false, .bidirectional = true},
    {.kind = CellKind::lstm},
    {.kind = CellKind::lstm, .biases = false, .states = false},
    {.kind = CellKind::lstm, .projected = 4},
    {.kind = CellKind::lstm, .projected = 2, .bidirectional = true},
    {.kind = CellKind::lstm, .batch = 1, .features = 1, .hidden = 1},
    {.kind = CellKind::lstm, .lengths = {2, 4, 1}},
    {.kind = CellKind::gru, .bidirectional = true, .lengths = {4, 4, 4}},
};

/** Returns lengths of sequences between 1 and `most`. */
inline std::vector<std::int64_t> lengths_of(std::int64_t batch, std::int64_t most) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < batch; ++i) lengths.push_back(1 + i * 3 % most);
  return lengths;
}

inline std::int64_t gates(CellKind kind) {
  return kind == CellKind::lstm ? 4 : kind == CellKind::gru ? 3 : 1;
}

/** Returns x, states, and the weights of each direction. */
inline std::vector<Tensor> operands_of(const LayerCase& c, DType dtype) {
  manual_seed(4);
  const std::int64_t columns = gates(c.kind) * c.hidden,
                     size = c.projected > 0 ? c.projected : c.hidden,
                     directions = c.bidirectional ? 2 : 1;
  std::vector<Tensor> all{randn({c.steps, c.batch, c.features})};
  if (c.states) all.push_back(randn({directions, c.batch, size}) * 0.5);
  if (c.states && c.kind == CellKind::lstm)
    all.push_back(randn({directions, c.batch, c.hidden}) * 0.5);
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
inline Tensor layer(const LayerCase& c, const std::vector<Tensor>& t) {
  std::size_t i = 1;
  const auto next = [&](bool there) { return there ? t[i++] : Tensor{}; };
  const Tensor h0 = next(c.states), c0 = next(c.states && c.kind == CellKind::lstm);
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
  if (c.kind == CellKind::lstm) {
    const LstmResult r = lstm(t[0], {h0, c0}, weights, options);
    return cat({flat(r.output), flat(r.h), flat(r.c)});
  }
  const RecurrentResult r = c.kind == CellKind::gru    ? gru(t[0], h0, weights, options)
                            : c.kind == CellKind::tanh ? rnn_tanh(t[0], h0, weights, options)
                                                       : rnn_relu(t[0], h0, weights, options);
  return cat({flat(r.output), flat(r.h)});
}

inline double layer_tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 2e-2 : 1e-1;
}

inline void check_against_cpu(const LayerCase& c, DType dtype) {
  check_alike(
      operands_of(c, dtype), [&](const std::vector<Tensor>& t) { return layer(c, t); },
      layer_tolerance(dtype));
}

/** Returns the largest difference of correct results, relative to the largest number: some
 *  roundings of the dtype. Wrong results, as with parameters at a wrong offset, differ by the order
 *  of 1. */
inline double library_tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 0x1p-7 : 0x1p-4;
}

/** Returns true if the results and gradients that the device computes by default agree with those
 *  of Mezzo's own kernels. */
inline bool layer_agrees_with_own_kernels(const LayerCase& c, DType dtype) {
  const Unverified scope;  // shows what the library computes
  const std::vector<Tensor> operands = operands_of(c, dtype);
  const auto f = [&](const std::vector<Tensor>& t) { return layer(c, t); };
  const std::vector<Tensor> got = results_on(kDevice, operands, f);
  const gpu::OwnKernels own;
  const std::vector<Tensor> expected = results_on(kDevice, operands, f);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<double> a = got[i].to_vector<double>(), b = expected[i].to_vector<double>();
    double greatest = 0, apart = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (std::isnan(a[k])) return false;
      greatest = std::max(greatest, std::abs(b[k]));
      apart = std::max(apart, std::abs(a[k] - b[k]));
    }
    if (apart > library_tolerance(dtype) * greatest) return false;
  }
  return true;
}

/** Returns true if NaN in the first element of the first sequence makes all results of its first
 *  step NaN. */
inline bool nan_comes_through(const LayerCase& c, DType dtype) {
  std::vector<Tensor> t = operands_of(c, dtype);
  t[0].narrow(0, 0, 1).narrow(1, 0, 1).narrow(2, 0, 1).fill_(
      std::numeric_limits<double>::quiet_NaN());
  for (Tensor& x : t) x = x.to(kDevice);
  const NoGrad no_grad;
  const std::vector<double> y = layer(c, t).to_vector<double>();
  const std::int64_t size = c.projected > 0 ? c.projected : c.hidden;
  return std::all_of(y.begin(), y.begin() + size, [](double x) { return std::isnan(x); });
}

}  // namespace recurrent
