// Captures that fail: the error names what cannot be captured, and everything works afterwards.
#include <mezzo.h>

#include <stdexcept>
#include <thread>

#include "../../tensor/device/capture.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "training.h"

using namespace captured;

namespace {

/** A net in training, whose step also calls `trouble` if set. */
struct Training {
  Net net;
  std::optional<optim::FusedAdam> optimizer;
  amp::GradScaler scaler{{.init_scale = 256}};
  std::function<void()> trouble;
  std::optional<gpu::CapturedStep> step;
  std::vector<Tensor> in = batch(8, false);

  Training() {
    net.to(kDevice);
    optimizer.emplace(net.parameters(), optim::FusedAdamOptions{.lr = 0.01});
    step.emplace(
        [this](const std::vector<Tensor>& x) -> std::vector<Tensor> {
          optimizer->zero_grad();
          const Tensor loss = cross_entropy(net(x[0]), x[1]);
          scaler.scale(loss).backward();
          if (trouble && Capture::current()) trouble();
          scaler.step(*optimizer);
          scaler.update();
          return {loss};
        },
        gpu::CapturedStepOptions{kDevice});
  }

  std::vector<double> state() const {
    std::vector<double> numbers;
    for (const Tensor& p : net.parameters()) add_all(numbers, p);
    add_all(numbers, optimizer->state_dict());
    for (const auto& [name, value] : scaler.state_dict()) numbers.push_back(value);
    numbers.push_back(static_cast<double>(default_generator().draw));
    return numbers;
  }
};

/** Trains with a failure at the first capture and without; the failed call must change nothing. */
template <class E>
void check_failure(const std::function<void(Training&)>& trouble, const std::string& text) {
  manual_seed(8);
  Training failing;
  manual_seed(8);
  Training other;
  (*failing.step)(failing.in);
  (*other.step)(other.in);
  const std::vector<double> before = failing.state();
  const MemoryStats memory = memory_stats(kDevice);
  failing.trouble = [&] { trouble(failing); };
  CHECK_THROWS_WITH_AS_TEXT((*failing.step)(failing.in), E, text);
  failing.trouble = nullptr;
  CHECK(!Capture::current());
  CHECK(same(failing.state(), before));
  failing.optimizer->zero_grad();
  other.optimizer->zero_grad();
  CHECK(memory_stats(kDevice).total.current <= memory.total.current);
  for (int i = 0; i < 5; ++i) {
    (*failing.step)(failing.in);
    (*other.step)(other.in);
  }
  CHECK(failing.step->captures() == 1);
  CHECK(same(failing.state(), other.state()));
}

}  // namespace

TEST_CASE("calls that cannot be captured are reported and leave everything usable",
          "[gpu][graph]") {
  NEED_DEVICE();
  check_failure<StateError>([](Training& t) { (void)sum(t.net.first.weight()).item<float>(); },
                            "item: the device is read");
  check_failure<StateError>([](Training& t) { (void)t.net.first.weight().to_vector<double>(); },
                            "to_vector: ");
  check_failure<StateError>([](Training& t) { (void)t.net.first.weight().to(cpu); },
                            "to: the device is read");
  check_failure<StateError>([](Training&) { (void)ones({3}).to(kDevice); },
                            "to: host memory is read");
  check_failure<StateError>([](Training& t) { (void)t.scaler.get_scale(); },
                            "GradScaler.get_scale: the scale is read");
  check_failure<StateError>([](Training& t) { (void)t.scaler.step(*t.optimizer).value(); },
                            "look at optimizer.last_result() after a replay");
  check_failure<StateError>(
      [](Training&) {
        gpu::Graph inner;
        inner.capture(kDevice, [] {});
      },
      "another step is being captured");
  check_failure<ShapeError>(
      [](Training& t) { (void)(t.net.first.weight() + ones({7}, {.device = kDevice})); },
      "shapes do not broadcast");
  check_failure<std::runtime_error>(
      [](Training&) { throw std::runtime_error("the program's own"); }, "the program's own");
}

TEST_CASE("reads of the device or the host during a capture are reported by the public name",
          "[gpu][graph]") {
  NEED_DEVICE();
  const Tensor x = rand({4, 3}, {.device = kDevice}), mask = x > 0.5;
  const Tensor places = zeros({4}, {.dtype = i64, .device = kDevice}),
               y = zeros({1}, {.device = kDevice});
  const auto check = [&](const char* name, const std::function<void()>& call) {
    gpu::Graph graph;
    CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice, call), StateError, str(name, ": "));
    CHECK(!graph.is_captured());
    graph.capture(kDevice, [&] { add_(y, ones({1}, {.device = kDevice})); });
    graph.replay();
  };
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"binary_cross_entropy", [&] { binary_cross_entropy(x, x); }},
      {"bincount", [&] { bincount(places); }},
      {"clip_grad_norm",
       [&] {
         const Tensor leaf = x.clone().requires_grad_();
         sum(leaf).backward();
         optim::clip_grad_norm({leaf}, 1, {.error_if_nonfinite = true});
       }},
      {"ctc_loss",
       [&] {
         ctc_loss(x.unsqueeze(1), places.slice(0, 0, 1).unsqueeze(0), places.slice(0, 0, 1),
                  places.slice(0, 0, 1));
       }},
      {"equal", [&] { (void)equal(x, x); }},
      {"index", [&] { index(x, {mask}); }},
      {"index_put_", [&] { index_put_(x, {mask}, y.view({})); }},
      {"masked_select", [&] { masked_select(x, mask); }},
      {"nonzero", [&] { nonzero(x); }},
      {"one_hot", [&] { one_hot(places); }},
      {"repeat_interleave", [&] { repeat_interleave(places, places); }},
      {"tensor", [] { tensor({1., 2}, {.device = kDevice}); }},
      {"unique", [&] { unique(x); }},
      {"amp::detect_nonfinite",
       [&] {
         const amp::detect_nonfinite watch;
         x * 2;
       }},
      {"amp::trace",
       [&] {
         const amp::trace ledger;
         const amp::autocast on;
         matmul(x, x.t());
       }},
  };
  for (const auto& [name, call] : calls) check(name, call);
  CHECK(y.item<int>() == static_cast<int>(calls.size()));
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture({DeviceKind::cuda, -1}, [] {}), DeviceError, "cuda:-1");
  CHECK_THROWS_WITH_AS_TEXT(graph.capture({DeviceKind::cuda, 63}, [] {}), DeviceError, "cuda:63");
}

TEST_CASE("running out of memory during a capture is recoverable", "[gpu][graph]") {
  NEED_DEVICE();
  for (const int n : {1, 2, 5})
    check_failure<OutOfMemory>(
        [n](Training& t) {
          allocator_for(kDevice).fail_nth(n);
          for (int i = 0; i < 10; ++i) (void)(t.net.first.weight() * 2.0);
        },
        "out of memory");
}

TEST_CASE("seeding within a captured step is rejected", "[gpu][graph]") {
  NEED_DEVICE();
  gpu::CapturedStep step(
      [](const std::vector<Tensor>&) -> std::vector<Tensor> {
        (void)rand({3}, {.device = kDevice});
        manual_seed(5);
        return {rand({3}, {.device = kDevice})};
      },
      {kDevice});
  step({});
  CHECK_THROWS_WITH_AS_TEXT(step({}), StateError, "manual_seed: a generator was seeded");
}

TEST_CASE("random numbers of a captured step continue the generator's, and vice versa",
          "[gpu][graph]") {
  NEED_DEVICE();
  const auto drawn = [](bool capture) {
    manual_seed(12);
    const auto step = as_steps(
        [](const std::vector<Tensor>&) -> std::vector<Tensor> {
          const auto attended = [](DType dtype) {
            const Tensor x =
                ones({3, 40, 16}, {.dtype = dtype, .device = kDevice}).requires_grad_();
            const Tensor y = scaled_dot_product_attention(x, x, x, {.dropout_p = 0.5});
            y.backward(y.detach());
            return std::vector<Tensor>{y.detach(), x.grad()};
          };
          std::vector<Tensor> results = attended(f32), low = attended(f16);
          results.insert(results.end(), low.begin(), low.end());
          results.insert(results.end(),
                         {rand({5}, {.device = kDevice}), randn({9}, {.device = kDevice}),
                          dropout(ones({40}, {.device = kDevice}), {.p = 0.5})});
          return results;
        },
        capture);
    std::vector<double> numbers;
    for (int i = 0; i < 6; ++i) {
      for (const Tensor& x : step({})) add_all(numbers, x);
      if (i == 3) add_all(numbers, rand({4}));
      if (i == 4) manual_seed(99);
    }
    add_all(numbers, rand({4}));
    return numbers;
  };
  CHECK(same(drawn(true), drawn(false)));
}

TEST_CASE("a graph works in its own memory and releases it", "[gpu][graph]") {
  NEED_DEVICE();
  gpu::Graph().capture(kDevice, [] {});  // allocates what the device keeps for all captures
  const Tensor x = ones({1000}, {.device = kDevice}), y = zeros({1000}, {.device = kDevice});
  empty_cache(kDevice);
  const MemoryStats before = memory_stats(kDevice);
  {
    gpu::Graph graph;
    CHECK(!graph.is_captured());
    CHECK_THROWS_WITH_AS_TEXT(graph.replay(), StateError, "nothing was captured");
    graph.capture(kDevice, [&] { y.copy_(y + x * 2.0); });
    CHECK(y.to_vector<double>()[3] == 0);
    const Tensor other =
        full({1000}, 7, {.device = kDevice});  // of the same size; must not use the graph's memory
    for (int i = 0; i < 3; ++i) graph.replay();
    CHECK(y.to_vector<double>()[999] == 6);
    CHECK(other.to_vector<double>()[999] == 7);
    graph.capture(kDevice, [&] { y.fill_(1); });
    graph.replay();
    CHECK(y.to_vector<double>()[0] == 1);
  }
  empty_cache(kDevice);
  CHECK(memory_stats(kDevice).reserved == before.reserved);
}

TEST_CASE("a class out of range in a captured step is reported at the next synchronisation",
          "[gpu][graph]") {
  NEED_DEVICE();
  const Tensor scores = zeros({2, 3}, {.device = kDevice});
  gpu::CapturedStep step(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        return {cross_entropy(scores, in[0])};
      },
      {kDevice});
  const Tensor good = zeros({2}, {.dtype = i64, .device = kDevice}),
               bad = full({2}, 5, {.dtype = i64, .device = kDevice});
  step({good});
  step({good});
  CHECK(step({good})[0].item<float>() > 0);
  const Tensor loss = step({bad})[0];
  CHECK_THROWS_WITH_AS_TEXT(loss.item<float>(), IndexError,
                            "cross_entropy: class out of range; got 5 at target[0]");
  CHECK(step({good})[0].item<float>() > 0);
}

TEST_CASE("destroyed graphs free their index checks for other graphs", "[gpu][graph]") {
  NEED_DEVICE();
  for (int n = 1; n < 80; ++n) {
    const Tensor x = ones({n}, {.device = kDevice}),
                 places = zeros({n}, {.dtype = i64, .device = kDevice});
    Tensor y;
    gpu::Graph graph;
    graph.capture(kDevice, [&] { y = index_select(x, 0, places); });
    graph.replay();
    CHECK(sum(y).item<int>() == n);
  }
  CHECK(index_select(ones({90}, {.device = kDevice}), 0,
                     zeros({90}, {.dtype = i64, .device = kDevice}))
            .numel() == 90);
}

TEST_CASE("destroying an optimizer invalidates its graph", "[gpu][graph]") {
  NEED_DEVICE();
  const Tensor p = ones({3}, {.device = kDevice}).requires_grad_();
  auto optimizer = std::make_unique<optim::FusedAdam>(std::vector{p});
  p.set_grad(ones({3}, {.device = kDevice}));
  optimizer->step();
  gpu::Graph graph;
  graph.capture(kDevice, [&] { optimizer->step(); });
  graph.replay();
  optimizer->add_param_group({ones({2}, {.device = kDevice}).requires_grad_()}, {});
  CHECK_THROWS_WITH_AS_TEXT(graph.replay(), StateError, "parameters were added");
  optimizer.reset();
  CHECK_THROWS_WITH_AS_TEXT(graph.replay(), StateError,
                            "an optimizer of the captured step was destroyed");
}

TEST_CASE("loaded states reach replays, and moving the model invalidates the graph",
          "[gpu][graph]") {
  NEED_DEVICE();
  const auto train = [](bool capture) {
    manual_seed(5);
    Net net;
    net.to(kDevice);
    optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
    const auto session = amp::initialize(net, optimizer, {.opt_level = "O1", .verbosity = 0});
    const auto step = as_steps(training_step(net, optimizer), capture);
    std::vector<double> numbers;
    std::optional<optim::StateDict> saved;
    for (int i = 0; i < 9; ++i) {
      if (i == 4) saved = optimizer.state_dict();
      if (i == 6) {
        optimizer.load_state_dict(*saved);
        const std::vector<Tensor> others(
            20, ones({20, 12}, {.device = kDevice}));  // may reuse freed memory
      }
      add_all(numbers, step(batch(8, false))[0]);
    }
    add_all(numbers, optimizer.state_dict());
    if (!capture) return numbers;
    net.to(cpu);
    net.to(kDevice);
    const Tensor in_its_place = zeros({6, 20}, {.device = kDevice});
    CHECK_THROWS_WITH_AS_TEXT(step(batch(8, false)), StateError,
                              "states has changed since the capture");
    CHECK(sum(abs(in_its_place)).item<float>() == 0);
    return numbers;
  };
  CHECK(same(train(true), train(false)));
}

TEST_CASE(
    "other threads' work is not captured: it is rejected in the capturing stream and runs in "
    "others",
    "[gpu][graph]") {
  NEED_DEVICE();
  const Tensor x = zeros({10}, {.device = kDevice});
  const auto elsewhere = [](const std::function<void()>& work) {
    std::string text;
    std::thread([&] {
      try {
        work();
      } catch (const StateError& e) {
        text = e.what();
      }
    }).join();
    return text;
  };
  const auto computes = [] {
    CHECK((ones({10}, {.device = kDevice}) * 3).to_vector<int>()[9] == 3);
  };
  gpu::Graph graph, other;
  other.capture(kDevice, [&] { add_(x, ones({10}, {.device = kDevice})); });
  graph.capture(kDevice, [&] {
    add_(x, ones({10}, {.device = kDevice}));
    CHECK(elsewhere([] { (void)ones({10}, {.device = kDevice}); }) ==
          "fill: another thread is capturing a step in this stream; use another stream with "
          "gpu::StreamScope, or wait until the capture has ended");
    CHECK(elsewhere([&] { (void)x.to_vector<int>(); }).find("another thread is capturing") !=
          std::string::npos);
    CHECK(elsewhere([&] { other.replay(); }).find("another thread is capturing") !=
          std::string::npos);
    CHECK(elsewhere([] { gpu::synchronize(kDevice); }).find("another thread is capturing") !=
          std::string::npos);
    CHECK(elsewhere([&] {
            const gpu::Stream own(kDevice);
            const gpu::StreamScope scope(own);
            computes();
          }).empty());
    CHECK(elsewhere([&] {
            const gpu::Stream own(kDevice);
            const gpu::StreamScope scope(own);
            gpu::Graph().capture(kDevice, [] {});
          }).find("Graph.capture: another thread is capturing a step on this device") == 0);
    add_(x, ones({10}, {.device = kDevice}));
  });
  CHECK(elsewhere(computes).empty());
  graph.replay();
  other.replay();
  CHECK(x.to_vector<int>() == std::vector<int>(10, 3));
}

TEST_CASE("reads and errors in another stream do not affect a capture of another thread",
          "[gpu][graph][stream]") {
  NEED_DEVICE();
  const Tensor x = ones({7}, {.device = kDevice}),
               places = zeros({7}, {.dtype = i64, .device = kDevice});
  const Tensor bad = full({5}, 9, {.dtype = i64, .device = kDevice}),
               y = zeros({7}, {.device = kDevice});
  const auto elsewhere = [](const std::function<void()>& work) {
    std::string text;
    std::thread([&] {
      const gpu::Stream own(kDevice);
      const gpu::StreamScope scope(own);
      try {
        work();
      } catch (const Error& e) {
        text = e.what();
      }
    }).join();
    return text;
  };
  gpu::synchronize(kDevice);
  (void)index_select(x, 0, places);  // the main stream may now have a pending index check
  gpu::Event event;
  gpu::Graph graph;
  const gpu::Stream main = gpu::Stream::main(kDevice);
  graph.capture(kDevice, [&] {
    add_(y, x);
    CHECK(
        elsewhere([] { CHECK(ones({3}, {.device = kDevice}).to_vector<int>()[2] == 1); }).empty());
    CHECK(elsewhere([&] {
            index_select(x, 0, bad).to_vector<float>();
          }).find("index_select: index out of range; got 9") == 0);
    CHECK(elsewhere([&] { CHECK(!main.query()); }).empty());
    CHECK(elsewhere([&] { event.record(main); }).find("another thread is capturing") !=
          std::string::npos);
    CHECK(elsewhere([&] {
            main.wait_stream(gpu::Stream::current(kDevice));
          }).find("another thread is capturing") != std::string::npos);
    add_(y, x);
  });
  CHECK(elsewhere([&] { event.record(main); }).empty());
  graph.replay();
  CHECK(y.to_vector<int>() == std::vector<int>(7, 2));
}

TEST_CASE("a step may discard its captures while it runs", "[gpu][graph]") {
  NEED_DEVICE();
  std::optional<gpu::CapturedStep> step;
  bool forgets = true;
  step.emplace(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        if (forgets) step->reset();
        return {in[0] * 2.0};
      },
      gpu::CapturedStepOptions{kDevice});
  for (int i = 0; i < 6; ++i) {
    if (i == 4) forgets = false;
    CHECK((*step)({full({3}, i)})[0].to_vector<int>()[2] == 2 * i);
  }
  CHECK(step->captures() == 1);
}

TEST_CASE("on the CPU nothing is captured, and a captured step runs eagerly", "[gpu][graph]") {
  NEED_DEVICE();
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(cpu, [] {}), Unsupported,
                            "the CPU does not support capture");
  int calls = 0;
  gpu::CapturedStep step(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        ++calls;
        return {in[0] * 2.0};
      },
      {cpu});
  for (int i = 0; i < 3; ++i) CHECK(step({ones({2})})[0].to_vector<double>()[0] == 2);
  CHECK(calls == 3);
  CHECK(step.captures() == 0);
  const gpu::CapturedStep other = std::move(step);
  CHECK(step.captures() == 0);
  CHECK_THROWS_WITH_AS_TEXT(step({ones({2})}), StateError, "the step was moved from");
  CHECK_THROWS_WITH_AS_TEXT(gpu::CapturedStep(nullptr), ValueError, "no function");
}
