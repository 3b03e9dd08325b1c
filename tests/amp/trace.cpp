// amp::trace and amp::detect_nonfinite.
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "../support/catch.h"
#include "nets.h"

using namespace nets;

namespace {

/** Captures the log instead of printing it. */
struct Quiet {
  static inline std::string text;
  Quiet() { text.clear(); }
  LogSink former =
      set_log_sink([](Severity, std::string_view line) { text += std::string(line) + "\n"; });
  ~Quiet() { set_log_sink(std::move(former)); }
};

/** The identity with a backward that throws. */
struct Sulk {
  static constexpr OpTraits traits{.name = "sulk", .precision = Precision::match};
  static OutSpecs infer(Inputs in, const NoAttrs&) { return {{in[0].shape(), in[0].dtype()}}; }
  static void cpu(Inputs in, Outputs out, const NoAttrs&) { out[0].copy_(in[0]); }
  static Grads backward(const Saved&, const Grads&) { throw ValueError("sulk backward"); }
};

const amp::CastEntry& entry_of(const std::vector<amp::CastEntry>& entries, std::string_view module,
                               std::string_view op) {
  for (const amp::CastEntry& e : entries)
    if (e.module == module && e.op == op) return e;
  throw std::runtime_error("no entry for " + std::string(op));
}

}  // namespace

TEST_CASE("a trace counts casts by module, op, tag and direction", "[trace]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(net, optimizer, {.opt_level = "O1", .verbosity = 0});
  amp::CastStats before;
  amp::trace ledger;
  {
    const Quiet quiet;
    before = amp::cast_stats();
    loss_of(net);
    loss_of(net);
  }
  const amp::CastStats counted = amp::cast_stats() - before;
  CHECK(ledger.total().count == counted.casts);
  CHECK(ledger.total().bytes == counted.bytes);
  CHECK(ledger.total().cache_hits == counted.cache_hits);
  const amp::CastEntry first = entry_of(ledger.entries(), "first", "linear");
  CHECK(first.tag == "low");
  CHECK(first.from == f32);
  CHECK(first.to == f16);
  CHECK(first.count == 4);       // input twice, weight and bias once
  CHECK(first.cache_hits == 2);  // weight and bias of the second pass
  CHECK(first.elements == 2 * 5 * 6 + 8 * 6 + 8);
  CHECK(first.bytes == 2 * first.elements);
  const amp::CastEntry sum_entry = entry_of(ledger.entries(), "", "sum");
  CHECK(sum_entry.tag == "f32");
  CHECK(sum_entry.to == f32);
  CHECK(ledger.table().find("f32->f16") != std::string::npos);
}

TEST_CASE("a trace records the input and output casts of a converted model", "[trace]") {
  Net net;
  auto session = amp::initialize(net, {.opt_level = "O2", .verbosity = 0});
  const amp::trace ledger;
  net(input());
  CHECK(entry_of(ledger.entries(), "", "model input").tag == "model");
  CHECK(entry_of(ledger.entries(), "", "model output").to == f32);
}

TEST_CASE("a trace counts what overflows and what is flushed to zero", "[trace]") {
  const Tensor x = tensor({1e6, -1e6, 1e-9, 1, 0, INFINITY}, {2, 3});
  const amp::autocast on;
  amp::trace outer;
  {
    amp::trace inner;
    matmul(x, ones({3, 1}, {.dtype = f16}));
    CHECK(inner.total().overflowed == 2);
    CHECK(inner.total().flushed == 1);
  }
  matmul(x, ones({3, 1}, {.dtype = f16}));
  CHECK(outer.total().count == 2);
  CHECK(outer.total().overflowed == 4);
}

TEST_CASE("a trace follows gradients back through the casts", "[trace]") {
  // The forward cast is f16 -> f32, so the gradient is cast f32 -> f16: small gradients are
  // flushed, large ones overflow.
  const Tensor x = tensor({1, 2, 3, 4}, {4}, {.dtype = f16});
  x.requires_grad_();
  const Tensor upstream = tensor({1e-9, 1e9, 1, 0});
  Tensor y;
  amp::trace ledger;
  {
    const amp::autocast on;
    y = exp(x);
  }
  sum(y * upstream).backward();
  const auto entries = ledger.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].direction == amp::CastDirection::forward);
  CHECK(entries[0].flushed == 0);
  CHECK(entries[1].op == entries[0].op);
  CHECK(entries[1].direction == amp::CastDirection::backward);
  CHECK(entries[1].from == f32);
  CHECK(entries[1].to == f16);
  CHECK(entries[1].count == 1);
  CHECK(entries[1].bytes == 8);
  CHECK(entries[1].flushed == 1);
  CHECK(entries[1].overflowed == 1);
  CHECK(ledger.table().find("backward") != std::string::npos);
}

TEST_CASE("gradients are not recorded by a trace that has ended or that belongs to another thread",
          "[trace]") {
  const Tensor w = ones({2, 2}).requires_grad_();
  const auto forward = [&] {
    const amp::autocast on;
    return sum(matmul(w, w));
  };
  Tensor loss;
  {
    const amp::trace ended;
    loss = forward();
  }
  CHECK_NOTHROW(loss.backward());
  const amp::trace ledger;
  loss = forward();
  std::thread([&] { loss.backward(); }).join();
  CHECK(ledger.total(amp::CastDirection::backward).count == 0);
}

TEST_CASE("a trace neither changes results nor enters the graph", "[trace]") {
  const auto run = [](bool traced) {
    Net net;
    const amp::autocast on;
    std::optional<amp::trace> ledger;
    if (traced) ledger.emplace();
    loss_of(net).backward();
    return values(net.first.weight.grad());
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("detect_nonfinite names the first op, its module and its operands", "[trace]") {
  const Quiet quiet;
  Net net;
  {
    const NoGrad no_grad;
    net.second.weight.fill_(3e38);
  }
  amp::detect_nonfinite guard;
  loss_of(net);
  REQUIRE(guard.report().has_value());
  CHECK(guard.report()->op == "linear");
  CHECK(guard.report()->module == "second");
  CHECK(guard.report()->inputs.at(1).abs_max == Approx(3e38));
  CHECK(guard.report()->last_ops.back() == "linear");
  CHECK(guard.report()->last_ops.size() > 2);
  CHECK(Quiet::text.find("linear(second): first non-finite result") == 0);
}

TEST_CASE("detect_nonfinite checks casts and the backward pass", "[trace]") {
  const Quiet quiet;
  SECTION("a cast that overflows") {
    amp::detect_nonfinite guard;
    const amp::autocast on;
    matmul(full({2, 2}, 1e6), ones({2, 2}));
    REQUIRE(guard.report().has_value());
    CHECK(guard.report()->op == "to");
  }
  SECTION("a gradient") {
    const Tensor x = zeros({3}, {.requires_grad = true});
    const Tensor y = sum(sqrt(x));
    amp::detect_nonfinite guard;
    y.backward();
    REQUIRE(guard.report().has_value());
    CHECK(guard.report()->op == "sqrt backward");
    guard.reset();
    log(zeros({2}));
    CHECK(guard.report()->op == "log");
  }
  SECTION("what comes after a rule that threw") {
    const Tensor x = ones({2}, {.requires_grad = true});
    amp::detect_nonfinite guard;
    CHECK_THROWS_AS(sum(apply<Sulk>(x)).backward(), ValueError);
    log(zeros({2}));
    REQUIRE(guard.report().has_value());
    CHECK(guard.report()->op == "log");
  }
  SECTION("what was not finite before is nobody's fault") {
    amp::detect_nonfinite guard;
    exp(full({2}, INFINITY));
    CHECK_FALSE(guard.report().has_value());
    CHECK(Quiet::text.empty());
  }
}

TEST_CASE(
    "observers that close in the wrong order are reported, and the remaining ones stay active",
    "[trace]") {
  const Quiet quiet;
  const auto reports = [&] {
    const std::string text = std::exchange(Quiet::text, {});
    return std::count(text.begin(), text.end(), '\n') == 1 &&
           text.find("guards must close in reverse order of opening") != std::string::npos;
  };
  const auto overflow = [] { (void)exp(full({1}, 1000)); };
  const auto cast = [] {
    const amp::autocast on;
    (void)mm(ones({2, 2}), ones({2, 2}));
  };
  {
    auto outer = std::make_unique<amp::detect_nonfinite>();
    auto middle = std::make_unique<amp::detect_nonfinite>();
    auto inner = std::make_unique<amp::detect_nonfinite>();
    middle.reset();
    CHECK(reports());
    outer.reset();
    CHECK(reports());
    overflow();
    CHECK(inner->report().has_value());
    CHECK(thread_hooks().trace == inner.get());
    inner.reset();
    CHECK(thread_hooks().trace == nullptr);
    Quiet::text.clear();  // the report of the inner one
    overflow();
    CHECK(Quiet::text.empty());
  }
  {
    auto outer = std::make_unique<amp::trace>();
    auto middle = std::make_unique<amp::trace>();
    auto inner = std::make_unique<amp::trace>();
    middle.reset();
    CHECK(reports());
    cast();
    CHECK(outer->total().count == 2);
    outer.reset();
    CHECK(reports());
    cast();
    CHECK(inner->total().count == 4);
    inner.reset();
    cast();
  }
  {
    const Tensor x = ones({1, 4}, {.dtype = f16});
    const auto dtype = [&] {
      const amp::autocast on;
      return softmax(x, 1).dtype();
    };
    using Tags = std::initializer_list<std::pair<std::string_view, Precision>>;
    auto outer = std::make_unique<amp::policy_override>(Tags{{"softmax", Precision::match}});
    auto inner = std::make_unique<amp::policy_override>(Tags{{"exp", Precision::match}});
    CHECK(dtype() == f16);
    outer.reset();
    CHECK(reports());
    CHECK(dtype() == f32);
    inner.reset();
    CHECK(dtype() == f32);
  }
  CHECK(Quiet::text.empty());
}

TEST_CASE("a guard opened inside a backward function observes the ops after it", "[trace]") {
  const Quiet quiet;
  std::unique_ptr<amp::detect_nonfinite> guard;
  const Tensor x = ones({2}, {.requires_grad = true}), y = x * 2;
  register_hook(y, [&](const Tensor&) {
    guard = std::make_unique<amp::detect_nonfinite>();
    return Tensor{};
  });
  sum(y).backward();
  (void)exp(full({1}, 1000));
  REQUIRE(guard->report().has_value());
  CHECK(guard->report()->op == "exp");
}
