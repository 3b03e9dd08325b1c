// The autograd engine: accumulation, options, hooks, errors, long chains.
#include <mezzo.h>

#include <cmath>
#include <thread>
#include <vector>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

Tensor f64_leaf(const std::vector<double>& v) {
  return tensor(v, {.dtype = f64, .requires_grad = true});
}

/** x^2 with a derivative that is wrong by 0.05 %. */
struct Wrong {
  static constexpr const char* name = "wrong";
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    context.save_for_backward({x});
    return x * x;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    return {gy[0] * context.saved()[0] * 2.001};
  }
};

}  // namespace

TEST_CASE("backward accumulates into leaves, over several uses and several calls", "[engine]") {
  const Tensor x = f64_leaf({1, 2}), y = f64_leaf({3, 4});
  sum(x * y + x).backward();
  CHECK(values(x.grad()) == std::vector<double>{4, 5});
  CHECK(values(y.grad()) == std::vector<double>{1, 2});
  sum(x * 10).backward();
  CHECK(values(x.grad()) == std::vector<double>{14, 15});
}

TEST_CASE("two leaves that receive the same gradient do not share it", "[engine]") {
  const Tensor x = f64_leaf({1, 2}), y = f64_leaf({3, 4});
  sum(x + y).backward();
  x.grad().fill_(7);
  CHECK(values(y.grad()) == std::vector<double>{1, 1});
}

TEST_CASE("an incoming gradient weights the outputs", "[engine]") {
  const Tensor x = f64_leaf({1, 2, 3});
  (x * x).backward(tensor({1, 0, -1}, {.dtype = f64}));
  CHECK(values(x.grad()) == std::vector<double>{2, 0, -6});
  const Tensor y = x * 2;
  CHECK_THROWS_WITH_AS_TEXT(y.backward(), ShapeError,
                            "only a tensor of one element has an implicit gradient");
  CHECK_THROWS_WITH_AS_TEXT(y.backward(zeros({2})), ShapeError,
                            "the incoming gradient does not fit");
}

TEST_CASE("a chain of 100,000 nodes overflows the stack neither in backward nor in release",
          "[engine]") {
  const Tensor x = f64_leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  sum(y).backward();
  CHECK(x.grad().item<double>() == 100001);
  Tensor z = x;
  for (int i = 0; i < 100000; ++i) z = tanh(z);
  z = {};  // without a backward pass: the chain is released from its end
  SUCCEED();
}

TEST_CASE("grad() gives gradients without touching the leaves", "[engine]") {
  const Tensor x = f64_leaf({2}), y = f64_leaf({5});
  const Tensor z = x * y, w = z * z;
  const std::vector<Tensor> g = grad(std::vector{w}, std::vector{x, z});
  CHECK(g[0].item<double>() == 100);
  CHECK(g[1].item<double>() == 20);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("grad() reaches inputs across ops recorded by other threads", "[engine]") {
  const Tensor x = tensor(2.0, {.dtype = f64}).requires_grad_();
  Tensor middle = x;
  for (int i = 0; i < 100; ++i) middle = middle * 1.01;
  Tensor y, above;
  // A new thread numbers its nodes from 0; they must be ordered after the nodes they use.
  std::thread([&] { above = middle * middle; }).join();
  std::thread([&] { y = above * 3.0; }).join();
  CHECK(grad(y, above, {.retain_graph = true}).item<double>() == 3);
  CHECK(grad(y, middle, {.retain_graph = true}).item<double>() ==
        Approx(6 * middle.item<double>()));
  const std::vector<Tensor> both = grad({y}, {middle, x});
  CHECK(both[0].item<double>() == Approx(6 * middle.item<double>()));
  CHECK(both[1].item<double>() == Approx(6 * middle.item<double>() * std::pow(1.01, 100)));
}

TEST_CASE("grad() of an input that the outputs do not depend on", "[engine]") {
  const Tensor x = f64_leaf({2}), stranger = f64_leaf({1});
  const auto square_of = [&] { return sum(x * x); };
  CHECK_THROWS_WITH_AS_TEXT(grad(square_of(), stranger), StateError, "does not take part");
  CHECK_FALSE(grad(square_of(), stranger, {.allow_unused = true}).defined());
  CHECK_THROWS_WITH_AS_TEXT(grad(square_of(), tensor(1.0)), StateError, "requires no gradient");
}

TEST_CASE("gradients of gradients", "[engine]") {
  const Tensor x = f64_leaf({0.5, -1.5});
  const Tensor first = grad(sum(x * x * x), x, {.create_graph = true});
  const Tensor second = grad(sum(first), x, {.create_graph = true});
  const Tensor third = grad(sum(second), x);
  CHECK(values(first) == std::vector<double>{0.75, 6.75});
  CHECK(values(second) == std::vector<double>{3, -9});
  CHECK(values(third) == std::vector<double>{6, 6});
}

TEST_CASE("a second backward through a freed graph is an error; retain_graph allows it",
          "[engine]") {
  const Tensor x = f64_leaf({3});
  const Tensor y = sum(x * x);
  y.backward({}, true);
  y.backward();
  CHECK(x.grad().item<double>() == 12);
  CHECK_THROWS_WITH_AS_TEXT(
      y.backward(), StateError,
      "mul backward: the graph was freed by an earlier backward; pass retain_graph = true");
  CHECK(x.grad().item<double>() == 12);
}

TEST_CASE("in-place changes of saved tensors are detected; the error has both versions",
          "[engine]") {
  const Tensor x = f64_leaf({1, 2});
  const Tensor y = x * 1;
  const Tensor z = sum(y * y);
  y.detach().fill_(0);
  CHECK_THROWS_WITH_AS_TEXT(
      z.backward(), StateError,
      "mul: a tensor needed for backward was modified in place; got f64[2]@cpu at "
      "version 1, expected version 0");
  // relu saves its output and add saves nothing, so overwriting the operand is harmless.
  const Tensor a = x * 1;
  const Tensor b = relu(a + 0);
  a.detach().fill_(0);
  sum(b).backward();
  CHECK(values(x.grad()) == std::vector<double>{1, 1});
}

TEST_CASE("in-place operations are recorded in the graph", "[engine]") {
  const Tensor x = f64_leaf({1, 2}), y = f64_leaf({3, 4});
  const Tensor z = x * 1;
  z *= y;
  z += 5;
  sum(z * z).backward();
  CHECK(values(x.grad()) == std::vector<double>{2 * 8 * 3, 2 * 13 * 4});
  CHECK(values(y.grad()) == std::vector<double>{2 * 8 * 1, 2 * 13 * 2});
}

TEST_CASE("invalid in-place operations are rejected and change nothing", "[engine]") {
  const Tensor x = f64_leaf({1, 2});
  CHECK_THROWS_WITH_AS_TEXT(x += 1, StateError,
                            "add_: a leaf that requires a gradient cannot be overwritten");
  CHECK_THROWS_WITH_AS_TEXT(x.slice(0, 0, 1) += 1, StateError, "a view of a leaf");
  const Tensor row = ones({2});
  CHECK_THROWS_WITH_AS_TEXT(row += ones({3, 2}), ShapeError,
                            "does not fit the tensor it would overwrite");
  CHECK_THROWS_WITH_AS_TEXT(row.expand({3, 2}) += 1, ValueError, "share one place in memory");
  CHECK_THROWS_WITH_AS_TEXT(zeros({2}, {.dtype = i32}) += 1.5, DtypeError,
                            "a floating result cannot be stored");
  CHECK(values(x) == std::vector<double>{1, 2});
  CHECK(values(row) == std::vector<double>{1, 1});
  {
    const NoGrad no_grad;
    x += 1;
  }
  CHECK(values(x) == std::vector<double>{2, 3});
}

TEST_CASE("an operand that overlaps the written tensor is read before the write", "[engine]") {
  const Tensor x = tensor({1., 2, 3, 4});
  x.slice(0, 1, 4) += x.slice(0, 0, 3);
  CHECK(values(x) == std::vector<double>{1, 3, 5, 7});
}

TEST_CASE("writes through views update the graph of the base and of other views", "[engine]") {
  const Tensor w = f64_leaf({1, 2, 3, 4});
  const Tensor base = w * 2;
  const Tensor left = base.slice(0, 0, 2), right = base.slice(0, 2, 4);
  left *= tensor({10, 20}, {.dtype = f64});
  SECTION("read through the base") {
    sum(base).backward();
    CHECK(values(w.grad()) == std::vector<double>{20, 40, 2, 2});
  }
  SECTION("read through the written view") {
    sum(left).backward();
    CHECK(values(w.grad()) == std::vector<double>{20, 40, 0, 0});
  }
  SECTION("read through another view") {
    sum(right).backward();
    CHECK(values(w.grad()) == std::vector<double>{0, 0, 2, 2});
  }
}

TEST_CASE("filling a tensor slice by slice is differentiable", "[engine]") {
  const Tensor x = f64_leaf({1, 2}), y = f64_leaf({3, 4});
  const Tensor out = zeros({2, 2}, {.dtype = f64});
  out.select(0, 0).copy_(x * x);
  out.select(0, 1).copy_(y);
  sum(out * out).backward();
  CHECK(values(x.grad()) == std::vector<double>{4, 32});
  CHECK(values(y.grad()) == std::vector<double>{6, 8});
}

TEST_CASE("a write through a view is differentiable as often as the written values", "[engine]") {
  const Tensor x = tensor({0.5, -1.5, 2.0, 0.25}, {.dtype = f64, .requires_grad = true});
  const auto written = [](const std::vector<Tensor>& in) {
    Tensor y = in[0] * in[0];
    mul_(y.slice(0, 1, 3), in[0].slice(0, 0, 2));  // y1 = x1^2 x0, y2 = x2^2 x1
    return std::vector<Tensor>{y * y};
  };
  CHECK(gradgradcheck(written, {x}));
  const Tensor first = grad({sum(written({x})[0])}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({sum(first)}, {x}, {.create_graph = true})[0];
  const Tensor third = grad({sum(second)}, {x})[0];
  // The third derivatives of x0^4 + x1^4 x0^2 + x2^4 x1^2 + x3^4 by x3 alone sum to 24 x3.
  CHECK(values(third)[3] == Approx(24 * 0.25));
}

TEST_CASE("the gradients of slices of a tensor share one buffer", "[engine]") {
  constexpr std::int64_t kParts = 8, kSize = 1 << 15;
  const Tensor x = ones({kParts, kSize}, {.requires_grad = true});
  const auto loss = [&](const auto& part) {
    Tensor total = sum(part(0));
    for (std::int64_t i = 1; i < kParts; ++i)
      total = total + sum(part(i) * static_cast<double>(i + 1));
    return total;
  };
  const auto check = [&](const auto& part) {
    x.set_grad(Tensor{});
    const Tensor y = loss(part);
    reset_peak_memory();
    const std::int64_t before = memory_stats().total.current;
    y.backward();
    const auto whole = static_cast<double>(x.numel()) * sizeof(float);
    CHECK(static_cast<double>(memory_stats().total.peak - before) < 1.6 * whole);
    for (std::int64_t i = 0; i < kParts; ++i)
      CHECK(x.grad()[i][kSize - 1].item<double>() == static_cast<double>(i + 1));
  };
  check([&](std::int64_t i) { return x.select(0, i); });
  check([&](std::int64_t i) { return x.slice(0, i, i + 1); });
}

TEST_CASE("gradients of overlapping slices and of the whole tensor add up", "[engine]") {
  manual_seed(4);
  for (const DType dtype : {f32, bf16}) {
    const Tensor x = randn({4, 6}).to(dtype).requires_grad_();
    const auto loss = [&](const Tensor& base) {
      const Tensor of_parts = sum(base.slice(0, 0, 3) * base.slice(0, 1, 4)) +
                              sum(square(base.slice(1, 0, 6, 2)) * base.slice(1, 1, 6, 2)) +
                              sum(base.select(1, 5) * 3) + sum(square(base.diagonal()));
      return of_parts + sum(square(base)) + sum(base.select(0, 1) * base.t().select(1, 2));
    };
    for (const bool is_leaf : {true, false}) {
      const auto gradient = [&](bool create_graph) {
        const Tensor y = loss(is_leaf ? x : x * 2);
        return values(grad(y, x, {.create_graph = create_graph}));
      };
      // With create_graph each gradient is computed on its own and then added.
      CHECK(gradient(false) == gradient(true));
    }
  }
  const Tensor z = randn({3, 4}, {.dtype = f64, .requires_grad = true});
  const auto twice = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].select(0, 0) * in[0].select(0, 1) * in[0].slice(0, 1, 3)};
  };
  CHECK(gradgradcheck(twice, {z}));
}

TEST_CASE("gradients of slices do not write into a gradient that was passed in", "[engine]") {
  const Tensor x = f64_leaf({1, 2, 3}), y = x * 1;
  const Tensor g = tensor({1, 1, 1}, {.dtype = f64}), of_part = tensor({5}, {.dtype = f64});
  const std::vector<Tensor> outputs{y, y.slice(0, 1, 2)};
  backward(outputs, std::vector{g, of_part});
  CHECK(values(g) == std::vector<double>{1, 1, 1});
  CHECK(values(x.grad()) == std::vector<double>{1, 6, 1});
}

TEST_CASE("a trace hook receives the full-size gradient of a slice", "[engine]") {
  struct Shapes final : TraceHook {
    std::vector<Shape> seen;
    void trace(const OpInfo&, Inputs, Outputs) override {}
    void leave_backward(const OpInfo& info, Inputs, Inputs gradients) override {
      if (info.traits.name == "select") seen.push_back(gradients[0].shape());
    }
  } shapes;
  const Tensor x = f64_leaf({1, 2}).reshape({2, 1}), y = sum(x[0]) + sum(x[1]);
  thread_hooks().trace = &shapes;
  y.backward();
  thread_hooks().trace = nullptr;
  CHECK(shapes.seen == std::vector<Shape>{{2, 1}, {2, 1}});
}

TEST_CASE("hooks see and replace gradients", "[engine]") {
  const Tensor x = f64_leaf({1, 2});
  const Tensor y = x * 3;
  std::vector<double> seen;
  register_hook(y, [&](const Tensor& g) {
    seen = values(g);
    return g * 10;
  });
  int accumulated = 0;
  register_post_accumulate_grad_hook(
      x, [&](const Tensor& l) { accumulated += static_cast<int>(l.grad().numel()); });
  register_hook(x, [](const Tensor& g) { return g + 1; });
  sum(y).backward();
  CHECK(seen == std::vector<double>{1, 1});
  CHECK(values(x.grad()) == std::vector<double>{31, 31});
  CHECK(accumulated == 2);
  CHECK_THROWS_WITH_AS_TEXT(register_hook(ones({1}), [](const Tensor&) { return Tensor{}; }),
                            StateError, "requires no gradient");
  CHECK_THROWS_WITH_AS_TEXT(register_post_accumulate_grad_hook(y, [](const Tensor&) {}), StateError,
                            "only leaves");
}

TEST_CASE("retain_grad keeps the gradient of a non-leaf", "[engine]") {
  const Tensor x = f64_leaf({2});
  const Tensor y = x * x;
  y.retain_grad();
  sum(y * 3).backward();
  CHECK(y.grad().item<double>() == 3);
}

TEST_CASE("retain_grad of what requires no gradient is an error", "[engine]") {
  CHECK_THROWS_WITH_AS_TEXT(ones({2}).retain_grad(), StateError,
                            "retain_grad: the tensor requires no gradient; got f32[2]@cpu");
  const Tensor x = f64_leaf({2});
  CHECK_THROWS_AS((x * x).detach().retain_grad(), StateError);
  {
    const NoGrad no_grad;
    CHECK_THROWS_AS((x * x).retain_grad(), StateError);
  }
  CHECK_NOTHROW(x.retain_grad());  // a leaf always keeps its gradient
  sum(x * 3).backward();
  CHECK(values(x.grad()) == std::vector<double>{3});
}

TEST_CASE("NoGrad and detach stop recording", "[engine]") {
  const Tensor x = f64_leaf({2});
  {
    const NoGrad no_grad;
    CHECK_FALSE((x * x).requires_grad());
    const GradMode on(true);
    CHECK((x * x).requires_grad());
  }
  CHECK((x * x).requires_grad());
  const Tensor y = x.detach() * x;
  sum(y).backward();
  CHECK(x.grad().item<double>() == 2);
  CHECK_THROWS_WITH_AS_TEXT(sum(x.detach()).backward(), StateError, "requires no gradient");
}

TEST_CASE("gradients have the dtype of their tensor", "[engine]") {
  const Tensor half = tensor({1, 2}, {.dtype = f16, .requires_grad = true});
  const Tensor wide = tensor({3., 4}, {.requires_grad = true});
  sum(half * wide).backward();
  CHECK(half.grad().dtype() == f16);
  CHECK(wide.grad().dtype() == f32);
  CHECK(values(half.grad()) == std::vector<double>{3, 4});
  CHECK_THROWS_WITH_AS_TEXT(half.set_grad(zeros({2})), DtypeError,
                            "a gradient has the dtype of its tensor");
  CHECK_THROWS_WITH_AS_TEXT(half.set_grad(zeros({3}, {.dtype = f16})), ShapeError,
                            "a gradient has the shape of its tensor");
  CHECK_THROWS_WITH_AS_TEXT(zeros({2}, {.dtype = i64}).requires_grad_(), DtypeError,
                            "only floating tensors have gradients");
}

TEST_CASE("gradcheck finds a wrong derivative", "[engine]") {
  const Tensor x = f64_leaf({1, 2});
  const GradcheckResult result = gradcheck(
      [](const std::vector<Tensor>& in) { return std::vector{custom_function<Wrong>(in[0])}; },
      {x});
  CHECK_FALSE(result.ok);
  CHECK(result.report.find("d output 0[0] / d input 0[0]: analytic 2.001") == 0);
  const auto wrong = [](const std::vector<Tensor>& in) {
    return std::vector{in[0] + in[1], custom_function<Wrong>(in[1])};
  };
  CHECK(gradcheck(wrong, {x, f64_leaf({1, 2})}, {.fast_mode = true})
            .report.find("d outputs / d input 1, along a direction: ") == 0);
  CHECK_THROWS_WITH_AS_TEXT(gradcheck([](const std::vector<Tensor>& in) { return in; },
                                      {tensor(1.0, {.requires_grad = true})}),
                            DtypeError, "double precision");
}

TEST_CASE("gradcheck in fast mode compares combinations of all entries", "[engine]") {
  const Tensor x = tensor({{0.3, -1.2, 2.0}, {0.7, 0.1, -0.4}}, {.dtype = f64}).requires_grad_();
  const Tensor y = tensor({1.5, -0.2, 0.6}, {.dtype = f64}).requires_grad_(), none;
  const std::vector<double> before = x.to_vector<double>();
  int calls = 0;
  const auto right = [&](const std::vector<Tensor>& in) {
    ++calls;
    return std::vector{exp(in[0]) * in[2], argmax(in[0]), sum(in[0] * in[0])};
  };
  const GradcheckOptions fast{.fast_mode = true};
  CHECK(gradcheck(right, {x, none, y}, fast).report == "");
  CHECK(calls == 5);  // one for the gradient, two for each input
  CHECK(gradgradcheck(right, {x, none, y}, fast).report == "");
  CHECK(x.to_vector<double>() == before);
  // a part of the gradient that is missing, and one that should not be there
  const auto lost = [](const std::vector<Tensor>& in) {
    return std::vector{in[0] * in[0].detach()};
  };
  CHECK_FALSE(gradcheck(lost, {x}, fast));
  CHECK_FALSE(gradgradcheck(lost, {x}, fast));
  const auto hidden = [](const std::vector<Tensor>& in) {
    return std::vector{exp(in[0]).detach()};
  };
  CHECK_FALSE(gradcheck(hidden, {x}, fast));
}
