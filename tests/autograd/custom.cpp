// User-defined functions and user-defined op structs.
#include <mezzo.h>

#include <cmath>
#include <memory>

#include "../support/catch.h"
#include "../support/log_capture.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

/** Computes x * e^x and saves its argument. */
struct TimesExp {
  static constexpr const char* name = "times_exp";
  static Tensor forward(FunctionContext& context, const Tensor& x, double scale) {
    const Tensor e = exp(x);
    context.save_for_backward({x});
    return x * e * scale;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    const std::vector<Tensor> saved = context.saved();
    return {gy[0] * exp(saved[0]) * (saved[0] + 1) * 2.0};
  }
};

/** x^3, which saves x^2: a constant in its second derivative. */
struct SavesSquare {
  static constexpr const char* name = "saves_square";
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    const Tensor square_of = x * x;
    context.save_for_backward({square_of});
    return square_of * x;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    return {gy[0] * context.saved()[0] * 3};
  }
};

/** The exponential, which saves its own result. */
struct MyExp {
  static constexpr const char* name = "my_exp";
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    const Tensor y = exp(x);
    context.save_for_backward({y});
    return y;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    return {gy[0] * context.saved()[0]};
  }
};

/** The square, which keeps a tensor in the attachment. */
struct Attached {
  static constexpr const char* name = "attached";
  static inline std::weak_ptr<const void> kept;
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    context.attachment = std::make_shared<const Tensor>(x.detach());
    kept = context.attachment;
    return x * x;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    return {gy[0] * *static_cast<const Tensor*>(context.attachment.get()) * 2};
  }
};

struct Swap {
  static constexpr const char* name = "swap";
  static std::vector<Tensor> forward(FunctionContext&, const Tensor& a, const Tensor& b) {
    return {b * 1, a * 1};
  }
  static Grads backward(FunctionContext&, const Grads& gy) { return {gy[1], gy[0]}; }
};

/** The product, which computes only the gradients that are needed. */
struct Product {
  static constexpr const char* name = "product";
  static inline std::vector<bool> in_forward, in_backward;
  static std::vector<bool> needs(const FunctionContext& context) {
    return {context.needs_input_grad(0), context.needs_input_grad(1)};
  }
  static Tensor forward(FunctionContext& context, const Tensor& a, const Tensor& b) {
    in_forward = needs(context);
    context.save_for_backward({a, b});
    return a * b;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    in_backward = needs(context);
    Grads gradients(2);
    for (std::size_t i = 0; i < 2; ++i)
      if (context.needs_input_grad(i)) gradients[i] = gy[0] * context.saved()[1 - i];
    return gradients;
  }
};

/** A user-defined op: a cubic with its own precision tag and derivative. */
struct Cube {
  static constexpr OpTraits traits{
      .name = "cube", .precision = Precision::f32, .summary = "x^3", .needs = {input(0)}};
  template <class V> static V forward(const V& x) { return x * x * x; }
  template <class V> static V derivative(const V& x, const V&) { return 3 * x * x; }
};

}  // namespace

TEST_CASE("a user function with arguments of any type, first and second derivative", "[custom]") {
  const auto f = [](const std::vector<Tensor>& x) {
    return std::vector{custom_function<TimesExp>(x[0], 2.0)};
  };
  const Tensor x = tensor({0.3, -0.8}, {.dtype = f64, .requires_grad = true});
  CHECK(gradcheck(f, {x}).report == "");
  CHECK(gradgradcheck(f, {x}).report == "");
}

TEST_CASE("a user function may save its own result", "[custom]") {
  const auto f = [](const std::vector<Tensor>& x) {
    return std::vector{custom_function<MyExp>(x[0])};
  };
  const Tensor x = tensor({0.3, -0.8}, {.dtype = f64, .requires_grad = true});
  CHECK(gradcheck(f, {x}).report == "");
  CHECK(gradgradcheck(f, {x}).report == "");
  const Tensor y = custom_function<MyExp>(x);
  y.detach().fill_(0);
  CHECK_THROWS_WITH_AS_TEXT(sum(y).backward(), StateError,
                            "my_exp: a tensor needed for backward was modified in place");
}

TEST_CASE("a saved tensor that is neither argument nor result is named in second derivatives",
          "[custom]") {
  const LogCapture log;
  const Tensor x = tensor({0.5, 1.0}, {.requires_grad = true});
  const auto derive = [&](const auto& f, bool create_graph) {
    return grad(sum(f(x)), x, {.create_graph = create_graph});
  };
  const auto intermediate = [](const Tensor& at) { return custom_function<SavesSquare>(at); };
  const auto result = [](const Tensor& at) { return custom_function<MyExp>(at); };
  const auto argument = [](const Tensor& at) { return custom_function<Product>(at, at * 2); };
  derive(intermediate, false);
  derive(result, true);
  derive(argument, true);
  CHECK(log.lines.empty());
  for (int i = 0; i < 2; ++i) derive(intermediate, true);
  REQUIRE(log.lines.size() == 1);  // once for each function
  CHECK(log.lines[0].find(
            "saves_square backward: create_graph takes a saved tensor for a constant") !=
        std::string::npos);
}

TEST_CASE("the attachment of a user function is freed with the saved tensors", "[custom]") {
  const Tensor x = tensor({1., 2, 3}, {.requires_grad = true});
  const Tensor y = sum(custom_function<Attached>(x));
  y.backward({}, true);
  CHECK_FALSE(Attached::kept.expired());
  y.backward();
  CHECK(x.grad().to_vector<int>() == std::vector<int>{4, 8, 12});
  CHECK(Attached::kept.expired());
  CHECK_THROWS_WITH_AS_TEXT(y.backward(), StateError, "the graph was freed by an earlier backward");
}

TEST_CASE("functions may have several results; unused ones get no gradient", "[custom]") {
  const Tensor a = tensor(1.0, {.requires_grad = true}), b = tensor(2.0, {.requires_grad = true});
  const std::vector<Tensor> swapped = custom_function<Swap>(a, b);
  sum(swapped[0] * 5).backward();
  CHECK(b.grad().item<double>() == 5);
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("a user function can ask which arguments need a gradient", "[custom]") {
  const Tensor a = tensor({2., 3}), b = tensor({5., 7}, {.requires_grad = true});
  sum(custom_function<Product>(a, b)).backward();
  CHECK(Product::in_forward == std::vector{false, true});
  CHECK(Product::in_backward == std::vector{false, true});
  CHECK_FALSE(a.grad().defined());
  CHECK(b.grad().to_vector<int>() == std::vector{2, 3});
  sum(custom_function<Product>(b, a)).backward();
  CHECK(Product::in_backward == std::vector{true, false});
  CHECK(b.grad().to_vector<int>() == std::vector{4, 6});
  const NoGrad no_grad;
  custom_function<Product>(b, b);
  CHECK(Product::in_forward == std::vector{false, false});
}

TEST_CASE("an op with more results than OutSpecs can hold is refused", "[custom]") {
  const OutSpec spec{.shape = {2}};
  CHECK(OutSpecs{spec, spec, spec, spec}.count == OutSpecs::kMax);
  CHECK_THROWS_WITH_AS_TEXT((OutSpecs{spec, spec, spec, spec, spec}), ValueError,
                            "OutSpecs: too many outputs; got 5, expected at most 4");
}

TEST_CASE("an op struct outside the library has dtypes, tag and both derivatives", "[custom]") {
  CHECK(op_info<Cube>.traits.precision == Precision::f32);
  CHECK(apply<Cube>(tensor({1., 2, -3})).to_vector<double>() == std::vector<double>{1, 8, -27});
  CHECK(apply<Cube>(tensor(2, {.dtype = f16})).dtype() == f16);
  const auto f = [](const std::vector<Tensor>& x) { return std::vector{apply<Cube>(x[0])}; };
  const Tensor x = tensor({0.3, -0.8}, {.dtype = f64, .requires_grad = true});
  CHECK(gradcheck(f, {x}).report == "");
  CHECK(gradgradcheck(f, {x}).report == "");
}
