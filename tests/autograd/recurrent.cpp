// Recurrent layers where the generated tests do not reach: sizes beyond one panel, threads,
// padding, casts, invalid operands.
#include <mezzo.h>

#include <cmath>

#include "../../tensor/device/parallel.h"
#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

RecurrentWeights lstm_weights(std::int64_t in, std::int64_t hidden, std::int64_t projection,
                              DType dtype) {
  const std::int64_t size = projection > 0 ? projection : hidden;
  const auto make = [&](const Shape& shape) {
    return (randn(shape, {.dtype = dtype}) * 0.2).detach().requires_grad_();
  };
  RecurrentWeights w{make({4 * hidden, in}), make({4 * hidden, size}), make({4 * hidden}),
                     make({4 * hidden})};
  if (projection > 0) w.weight_hr = make({projection, hidden});
  return w;
}

std::vector<Tensor> list(const RecurrentWeights& w) {
  std::vector<Tensor> all{w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh};
  if (w.weight_hr.defined()) all.push_back(w.weight_hr);
  return all;
}

}  // namespace

TEST_CASE("large recurrent layers: fused and composite gradients agree for any number of threads",
          "[recurrent]") {
  manual_seed(4);
  const int before = num_threads();
  for (const std::int64_t projection : {0, 37}) {
    const Tensor x = randn({6, 17, 33}, {.dtype = f64, .requires_grad = true});
    const std::vector<RecurrentWeights> w = {lstm_weights(33, 70, projection, f64)};
    const RecurrentOptions options{.lengths = {6, 5, 1, 6, 3, 2, 2, 6, 4, 4, 4, 1, 6, 6, 2, 3, 6}};
    std::vector<Tensor> wanted = list(w[0]);
    wanted.push_back(x);
    const auto run = [&](bool graph) {
      const LstmResult r = lstm(x, {}, w, options);
      const Tensor loss = sum(r.output * r.output) + sum(r.h) + sum(r.c);
      return grad(std::span(&loss, 1), wanted, {.create_graph = graph});
    };
    const std::vector<Tensor> fused = run(false), composite = run(true);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      CHECK(largest_difference(fused[i], composite[i]) < 1e-11);
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      const std::vector<Tensor> again = run(false);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        CHECK(again[i].to_vector<double>() == fused[i].to_vector<double>());
    }
    set_num_threads(before);
  }
}

TEST_CASE("padding is neither read nor written, and last states are those of each sequence's end",
          "[recurrent]") {
  manual_seed(5);
  const std::vector<RecurrentWeights> w = {lstm_weights(3, 4, 0, f32), lstm_weights(3, 4, 0, f32)};
  const Tensor x = randn({5, 2, 3});
  x.slice(0, 2, 5).select(1, 1).fill_(NAN);
  const Tensor leaf = x.clone().requires_grad_();
  const LstmResult both = lstm(leaf, {}, w, {.bidirectional = true, .lengths = {5, 2}});
  const LstmResult alone = lstm(x.slice(0, 0, 2).slice(1, 1, 2), {}, w, {.bidirectional = true});
  CHECK(both.h.slice(1, 1, 2).to_vector<float>() == alone.h.to_vector<float>());
  CHECK(both.c.slice(1, 1, 2).to_vector<float>() == alone.c.to_vector<float>());
  CHECK(both.output.slice(0, 0, 2).slice(1, 1, 2).to_vector<float>() ==
        alone.output.to_vector<float>());
  CHECK(both.output.slice(0, 2, 5).slice(1, 1, 2).to_vector<float>() ==
        std::vector<float>(24, 0.0f));
  for (const bool graph : {false, true}) {
    const Tensor loss = sum(both.output);
    std::vector<Tensor> wanted = list(w[0]);
    wanted.push_back(leaf);
    const std::vector<Tensor> g =
        grad(std::span(&loss, 1), wanted, {.create_graph = graph, .retain_graph = true});
    for (const Tensor& t : g) CHECK(std::isfinite(sum(t).item<double>()));
    CHECK(g.back().slice(0, 2, 5).slice(1, 1, 2).to_vector<float>() == std::vector<float>(9, 0.0f));
  }
}

TEST_CASE("under autocast any mixture of dtypes gives low-precision results, c included",
          "[recurrent]") {
  manual_seed(6);
  RecurrentWeights w = lstm_weights(3, 4, 0, f32);
  w.bias_hh = w.bias_hh.detach().to(bf16);
  const Tensor x = randn({5, 2, 3}, {.dtype = f16}), h = zeros({1, 2, 4}), c = zeros({1, 2, 4});
  CHECK_THROWS_AS(lstm(x, {h, c}, {w}), DtypeError);
  const amp::autocast on;
  const LstmResult r = lstm(x, {h, c}, {w});
  CHECK(r.output.dtype() == f16);
  CHECK(r.h.dtype() == f16);
  CHECK(r.c.dtype() == f16);
  const LstmState s = lstm_cell(randn({2, 3}), {}, w);
  CHECK(s.h.dtype() == f16);
  CHECK(s.c.dtype() == f16);
}

TEST_CASE("the last states may be overwritten before the backward pass", "[recurrent]") {
  manual_seed(9);
  const std::vector<RecurrentWeights> w = {lstm_weights(3, 4, 0, f32)};
  const Tensor x = randn({5, 2, 3});
  const auto gradient = [&](bool overwrite) {
    const LstmState one = lstm_cell(x.select(0, 0), {}, w[0]);
    const LstmResult r = lstm(x, {}, w);
    if (overwrite)
      for (const Tensor& state : {one.c, r.h, r.c}) state.detach().zero_();
    const Tensor loss = sum(r.output) + sum(one.h);
    return grad(loss, w[0].weight_hh).to_vector<float>();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("dropout is applied between layers only", "[recurrent]") {
  manual_seed(7);
  const std::vector<RecurrentWeights> one = {lstm_weights(3, 4, 0, f32)},
                                      two = {one[0], lstm_weights(4, 4, 0, f32)};
  const Tensor x = randn({5, 2, 3});
  const auto output = [&](const std::vector<RecurrentWeights>& w, double p) {
    return lstm(x, {}, w, {.dropout = p}).output.to_vector<float>();
  };
  CHECK(output(one, 0.9) == output(one, 0));
  CHECK(output(two, 0.9) != output(two, 0));
  const LstmResult cut = lstm(x, {}, two, {.dropout = 1});
  CHECK(cut.h.select(0, 0).to_vector<float>() ==
        lstm(x, {}, one).h.select(0, 0).to_vector<float>());
}

TEST_CASE("recurrent ops reject mismatched operands", "[recurrent]") {
  const auto weights = [](std::int64_t rows, std::int64_t in, std::int64_t hidden) {
    return RecurrentWeights{zeros({rows, in}), zeros({rows, hidden}), zeros({rows}), zeros({rows})};
  };
  const Tensor x = zeros({5, 2, 3});
  const RecurrentWeights w = weights(4, 3, 4), l = weights(16, 3, 4);
  CHECK_THROWS_WITH_AS_TEXT(
      rnn_tanh(x, zeros({1, 3, 4}), {w}), ShapeError,
      "rnn_tanh: the initial h does not fit; got f32[3,4]@cpu, expected [2,4]");
  CHECK_THROWS_AS(rnn_tanh(zeros({5, 3}), {}, {w}), ShapeError);
  CHECK_THROWS_AS(rnn_tanh(zeros({5, 2, 4}), {}, {w}), ShapeError);
  CHECK_THROWS_AS(rnn_tanh(x, zeros({2, 2, 4}), {w}), ShapeError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {}), ValueError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {w, w}), ShapeError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {w}, {.bidirectional = true}), ValueError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {RecurrentWeights{w.weight_ih, {}}}), ValueError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {w}, {.dropout = 2}), ValueError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {w}, {.lengths = {1}}), ValueError);
  CHECK_THROWS_AS(rnn_tanh(x, {}, {w}, {.lengths = {1, 6}}), ValueError);
  CHECK_THROWS_AS(rnn_tanh(x.to(f16), {}, {w}), DtypeError);
  RecurrentWeights projected = w;
  projected.weight_hr = zeros({2, 4});
  CHECK_THROWS_AS(rnn_tanh(x, {}, {projected}), ValueError);
  CHECK_THROWS_AS(gru(x, {}, {w}), ShapeError);
  CHECK_THROWS_AS(lstm(x, {zeros({1, 2, 4}), zeros({1, 2, 5})}, {l}), ShapeError);
  RecurrentWeights bad_bias = l;
  bad_bias.bias_hh = zeros({4});
  CHECK_THROWS_AS(lstm(x, {}, {bad_bias}), ShapeError);
  CHECK_THROWS_AS(lstm_cell(x, {}, l), ShapeError);
  CHECK_THROWS_AS(lstm_cell(zeros({2, 3}), {zeros({3, 4}), {}}, l), ShapeError);
  CHECK_THROWS_AS(gru_cell(zeros({2, 3}), {}, RecurrentWeights{}), ValueError);
}
