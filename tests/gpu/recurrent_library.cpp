// Recurrent layers by the emulated cuDNN: when it is used, that all its results arrive, and that
// one which drops NaN is not used.
#include "recurrent.h"

#include "../emulator/counters.h"
#include "../emulator/dnn.h"
#include "emulation.h"

using namespace recurrent;
using emulator::DnnFault;

namespace {

/** Leaves all layers to cuDNN that it supports. */
struct LibraryScope {
  AnyBits any;
  emulation::ResidentScope no_cooperative_launches{0};
};

/** Results and gradients, and the number of cuDNN calls. */
struct LayerOutcome {
  std::vector<Tensor> results;
  std::int64_t calls;
};

LayerOutcome layer_on_device(const LayerCase& c, DType dtype) {
  const emulator::LaunchLog log;
  std::vector<Tensor> results = results_on(
      kDevice, operands_of(c, dtype), [&](const std::vector<Tensor>& t) { return layer(c, t); });
  return {results, std::count(log.names.begin(), log.names.end(), "cuDNN")};
}

/** Returns a case with a new shape at each call, for which nothing is checked yet. */
LayerCase unseen() {
  static std::int64_t features = 10;
  return {.kind = CellKind::lstm, .features = ++features};
}

}  // namespace

TEST_CASE("where nondeterminism is allowed cuDNN computes recurrent layers and agrees with the CPU",
          "[gpu][recurrent]") {
  const LibraryScope library;
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const LayerCase& c : kLayerCases) {
      INFO(name(dtype) << " case " << (&c - kLayerCases.data()));
      (void)layer_on_device(c, dtype);  // runs the check
      CHECK(layer_on_device(c, dtype).calls == (c.bidirectional ? 4 : 2));
      check_against_cpu(c, dtype);
    }
}

TEST_CASE("without cuDNN or without nondeterminism our own kernels compute recurrent layers",
          "[gpu][recurrent]") {
  const LayerCase c = unseen();
  CHECK(layer_on_device(c, f32).calls == 0);
  const LibraryScope library;
  emulator::set_has_dnn(false);
  CHECK(layer_on_device(c, f32).calls == 0);
  emulator::set_has_dnn(true);
}

TEST_CASE("own kernels compute reversed padding, empty sequences and single steps",
          "[gpu][recurrent]") {
  const LibraryScope library;
  const auto calls = [](const LayerCase& c) {
    (void)layer_on_device(c, f32);
    check_against_cpu(c, f32);
    return layer_on_device(c, f32).calls;
  };
  CHECK(calls({.kind = CellKind::gru, .bidirectional = true, .lengths = {4, 2, 1}}) ==
        2);  // one of two directions
  CHECK(calls({.kind = CellKind::lstm, .lengths = {1, 4, 0}}) == 0);
  CHECK(calls({.kind = CellKind::lstm, .steps = 1}) == 0);
}

TEST_CASE("a cuDNN that drops NaN computes no recurrent layer", "[gpu][recurrent]") {
  const LibraryScope library;
  const LayerCase c = unseen();
  emulator::set_dnn_fault(DnnFault::hidden_nan);
  CHECK(layer_on_device(c, f16).calls > 0);  // of the check
  CHECK(layer_on_device(c, f16).calls == 0);
  check_against_cpu(c, f16);
  CHECK(nan_comes_through(c, f16));
  emulator::set_dnn_fault(DnnFault::none);
  CHECK(layer_on_device(c, f16).calls == 0);  // after a failure it is not used again
  CHECK(layer_on_device(unseen(), f16).calls > 2);
}

TEST_CASE("the comparison with our own kernels finds a wrong cuDNN", "[gpu][recurrent]") {
  const LibraryScope library;
  const LayerCase c = unseen();
  CHECK(layer_agrees_with_own_kernels(c, f16));
  for (const DnnFault fault : {DnnFault::wrong_results, DnnFault::wrong_gradients}) {
    emulator::set_dnn_fault(fault);
    CHECK_FALSE(layer_agrees_with_own_kernels(c, f16));
    emulator::set_dnn_fault(DnnFault::none);
  }
}

TEST_CASE("a retained graph through cuDNN's recurrent layer can be used twice",
          "[gpu][recurrent]") {
  const LibraryScope library;
  const LayerCase c{.kind = CellKind::lstm};
  std::vector<Tensor> t = operands_of(c, f32);
  for (Tensor& x : t) x = x.to(kDevice).requires_grad_();
  const Tensor y = sum(layer(c, t));
  const auto walk = [&] { return grad(std::span(&y, 1), t, {.retain_graph = true}); };
  const std::vector<Tensor> first = walk(), second = walk();
  for (std::size_t i = 0; i < first.size(); ++i)
    CHECK(first[i].to_vector<double>() == second[i].to_vector<double>());
}

TEST_CASE(
    "a layer first called in a capture runs on our own kernels; captured steps have the bits of "
    "others",
    "[gpu][recurrent]") {
  const LibraryScope library;
  const LayerCase unknown = unseen(), known = unseen();
  (void)layer_on_device(known, f32);
  for (const bool is_known : {false, true}) {
    const LayerCase c = is_known ? known : unknown;
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

TEST_CASE("cuDNN keeps weights on chip where it supports the batch, else it works step by step",
          "[gpu][recurrent]") {
  const LibraryScope library;
  for (const std::int64_t batch : {2, 4}) {  // the emulated library needs four
    const LayerCase c{.kind = CellKind::lstm, .batch = batch, .features = 128, .hidden = 128};
    (void)layer_on_device(c, f16);
    CHECK(layer_on_device(c, f16).calls == 2);
    check_against_cpu(c, f16);
  }
}
