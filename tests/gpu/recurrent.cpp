// Recurrent layers by the emulated cuDNN: when it serves, that all it gives lands where it belongs, and that a library that errs is found out.
#include "../emulator/counters.h"
#include "../emulator/dnn.h"
#include "alike.h"

using namespace alike;
using emulator::DnnFault;

namespace {

/** Lets bits vary until the end of the scope. */
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

std::int64_t gates(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

/** x, states, and the weights of each direction. */
std::vector<Tensor> operands_of(const Case& c, DType dtype) {
  manual_seed(4);
  const std::int64_t columns = gates(c.kind) * c.hidden, size = c.projected > 0 ? c.projected : c.hidden,
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

/** Output and last states side by side. */
Tensor layer(const Case& c, const std::vector<Tensor>& t) {
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

/** Results and gradients, and how many calls of cuDNN they took. */
struct Outcome {
  std::vector<Tensor> results;
  std::int64_t calls;
};

Outcome on_device(const Case& c, DType dtype) {
  const emulator::LaunchLog log;
  std::vector<Tensor> results =
      results_on(kDevice, operands_of(c, dtype), [&](const std::vector<Tensor>& t) { return layer(c, t); });
  return {results, std::count(log.names.begin(), log.names.end(), "cuDNN")};
}

double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 2e-2 : 1e-1;
}

void check_against_cpu(const Case& c, DType dtype) {
  check_alike(
      operands_of(c, dtype), [&](const std::vector<Tensor>& t) { return layer(c, t); }, tolerance(dtype));
}

/** Another shape for each, so that nothing is known of them yet. */
Case unseen() {
  static std::int64_t features = 10;
  return {.kind = Kind::lstm, .features = ++features};
}

}  // namespace

TEST_CASE("cuDNN computes recurrent layers where bits may vary, as the CPU does", "[gpu][recurrent]") {
  const std::vector<Case> cases{
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
  const AnyBits any;
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const Case& c : cases) {
      INFO(name(dtype) << " case " << (&c - cases.data()));
      (void)on_device(c, dtype);  // which asks for the proof
      CHECK(on_device(c, dtype).calls == (c.bidirectional ? 4 : 2));
      check_against_cpu(c, dtype);
    }
}

TEST_CASE("without leave to vary bits, or without cuDNN, recurrent layers are our own", "[gpu][recurrent]") {
  const Case c = unseen();
  CHECK(on_device(c, f32).calls == 0);
  const AnyBits any;
  emulator::set_has_dnn(false);
  CHECK(on_device(c, f32).calls == 0);
  emulator::set_has_dnn(true);
}

TEST_CASE("what cuDNN is not asked for is our own: padding in reverse, a sequence of no steps, one step",
          "[gpu][recurrent]") {
  const AnyBits any;
  const auto calls = [](const Case& c) {
    (void)on_device(c, f32);
    check_against_cpu(c, f32);
    return on_device(c, f32).calls;
  };
  CHECK(calls({.kind = Kind::gru, .bidirectional = true, .lengths = {4, 2, 1}}) ==
        2);  // one direction of two
  CHECK(calls({.kind = Kind::lstm, .lengths = {1, 4, 0}}) == 0);
  CHECK(calls({.kind = Kind::lstm, .steps = 1}) == 0);
}

TEST_CASE("a cuDNN that errs is found out before it computes a recurrent layer", "[gpu][recurrent]") {
  const AnyBits any;
  for (const DnnFault fault : {DnnFault::wrong_results, DnnFault::wrong_gradients, DnnFault::hidden_nan}) {
    const Case c = unseen();
    emulator::set_dnn_fault(fault);
    const Outcome first = on_device(c, f16);
    CHECK(first.calls > 0);  // the proof's
    CHECK(on_device(c, f16).calls == 0);
    check_against_cpu(c, f16);
    emulator::set_dnn_fault(DnnFault::none);
    CHECK(on_device(c, f16).calls == 0);  // once found out it is not asked again
    CHECK(on_device(unseen(), f16).calls > 2);
  }
}

TEST_CASE("a graph through cuDNN's recurrent layer can be walked twice", "[gpu][recurrent]") {
  const AnyBits any;
  const Case c{.kind = Kind::lstm};
  std::vector<Tensor> t = operands_of(c, f32);
  for (Tensor& x : t) x = x.to(kDevice).requires_grad_();
  const Tensor y = sum(layer(c, t));
  const auto walk = [&] { return grad(std::span(&y, 1), t, {.retain_graph = true}); };
  const std::vector<Tensor> first = walk(), second = walk();
  for (std::size_t i = 0; i < first.size(); ++i)
    CHECK(first[i].to_vector<double>() == second[i].to_vector<double>());
}

TEST_CASE(
    "a kind of layer first seen in a capture is our own there, and captured steps have the bits of others",
    "[gpu][recurrent]") {
  const AnyBits any;
  const Case unknown = unseen(), known = unseen();
  (void)on_device(known, f32);
  for (const bool is_known : {false, true}) {
    const Case c = is_known ? known : unknown;
    std::vector<Tensor> t = operands_of(c, f32);
    for (Tensor& x : t) x = x.to(kDevice);
    const NoGrad no_grad;
    Tensor captured;
    gpu::Graph graph;
    const emulator::LaunchLog log;
    graph.capture(kDevice, [&] { captured = layer(c, t); });
    graph.replay();
    CHECK(std::count(log.names.begin(), log.names.end(), "cuDNN") == (is_known ? 1 : 0));
    CHECK(distance(captured.to(cpu), layer(c, t).to(cpu)) <= (is_known ? 0 : 1e-5));
  }
}

TEST_CASE("weights stay on chip where cuDNN takes the batch, else it works step by step",
          "[gpu][recurrent]") {
  const AnyBits any;
  for (const std::int64_t batch : {2, 4}) {  // the emulated library wants four
    const Case c{.kind = Kind::lstm, .batch = batch, .features = 128, .hidden = 128};
    (void)on_device(c, f16);
    CHECK(on_device(c, f16).calls == 2);
    check_against_cpu(c, f16);
  }
}
