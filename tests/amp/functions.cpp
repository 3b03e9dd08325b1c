// Overridden tags of ops, user callables as ops with a tag, user functions with a backward.
#include <mezzo.h>

#include <map>
#include <thread>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

Tensor matrix() { return tensor({1.001, 2, 3, 4.003}, {2, 2}); }

/** Clears the registration of an op at the end of a test. */
struct Cleared {
  std::string_view op;
  ~Cleared() { amp::clear_registration(op); }
};

/** Computes x w and records the dtypes and casting state it ran in. */
struct Product {
  static constexpr const char* name = "product";
  static inline DType forward_dtype, backward_dtype;
  static inline bool backward_casts;
  static Tensor forward(FunctionContext& context, const Tensor& x, const Tensor& w) {
    context.save_for_backward({x, w});
    const Tensor y = matmul(x, w);
    forward_dtype = y.dtype();
    return y;
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    const std::vector<Tensor> saved = context.saved();
    const Tensor dx = matmul(gy[0], saved[1].t()), dw = matmul(saved[0].t(), gy[0]);
    backward_dtype = dx.dtype();
    backward_casts = amp::autocast::is_enabled();
    return {dx, dw};
  }
};

}  // namespace

TEST_CASE("a registration replaces an op's tag for the process until it is cleared",
          "[overrides]") {
  const Cleared later{"relu"}, later_too{"matmul"};
  const Tensor x = matrix();
  amp::register_half_function("relu");
  CHECK(relu(x).dtype() == f32);  // casts are off
  const amp::autocast on;
  CHECK(relu(x).dtype() == f16);
  DType elsewhere = f32;
  std::thread([&] {
    const amp::autocast there;
    elsewhere = relu(x).dtype();
  }).join();
  CHECK(elsewhere == f16);
  amp::register_float_function("relu");
  CHECK(relu(x.to(f16)).dtype() == f32);
  amp::clear_registration("relu");
  CHECK(relu(x).dtype() == f32);
  amp::register_float_function("matmul");
  CHECK(equal(matmul(x, x), [&] {
    const amp::disable_casts off;
    return matmul(x, x);
  }()));
}

TEST_CASE("register_promote_function promotes operands that the op itself refuses", "[overrides]") {
  const Cleared later{"matmul"};
  const Tensor x = matrix();
  amp::register_promote_function("matmul");
  const amp::autocast on;
  CHECK(matmul(x, x.to(f16)).dtype() == f32);
  CHECK(matmul(x.to(bf16), x.to(f16)).dtype() == f32);
  CHECK(matmul(x.to(f16), x.to(f16)).dtype() == f16);
  CHECK(matmul(x, x.to(f64)).dtype() == f64);
}

TEST_CASE("policy_override is scoped, nests, and takes precedence over registrations",
          "[overrides]") {
  const Cleared later{"exp"};
  const Tensor x = matrix();
  amp::register_half_function("exp");
  const amp::autocast on;
  {
    const amp::policy_override outer{{"exp", Precision::f32}, {"matmul", Precision::match}};
    CHECK(exp(x.to(f16)).dtype() == f32);
    CHECK(matmul(x, x).dtype() == f32);
    {
      const amp::policy_override inner{{"exp", Precision::match}};
      CHECK(exp(x.to(bf16)).dtype() == bf16);
      CHECK(matmul(x, x).dtype() == f32);
    }
    CHECK(exp(x.to(f16)).dtype() == f32);
  }
  CHECK(exp(x).dtype() == f16);
}

TEST_CASE("an override to f32 allows a banned op", "[overrides]") {
  const Tensor p = full({3}, 0.25, {.dtype = f16}), t = ones({3});
  const amp::autocast on;
  CHECK_THROWS_WITH_AS_TEXT(binary_cross_entropy(p, t), DtypeError, "policy override");
  const amp::policy_override allow{{"binary_cross_entropy", Precision::f32}};
  CHECK(binary_cross_entropy(p, t).dtype() == f32);
}

TEST_CASE("unknown op names are refused, with suggestions", "[overrides]") {
  CHECK_THROWS_WITH_AS_TEXT(amp::register_half_function("matmull"), ValueError,
                            "did you mean \"matmul\"");
  CHECK_THROWS_AS(amp::clear_registration(""), ValueError);
  CHECK_THROWS_AS((amp::policy_override{{"relu", Precision::low}, {"nosuch", Precision::low}}),
                  ValueError);
  const amp::autocast on;
  CHECK(relu(matrix()).dtype() == f32);  // the failed override has no effect
}

TEST_CASE("half_function, float_function and promote_function act as one op with casts off inside",
          "[overrides]") {
  const Tensor x = matrix(), w = matrix();
  const auto body = [](const Tensor& a, const std::map<std::string, Tensor>& more) {
    return std::pair(matmul(a, more.at("w")), amp::autocast::is_enabled());
  };
  const auto half = amp::half_function(body), single = amp::float_function(body);
  const auto widest = amp::promote_function(body);
  CHECK(half(x, std::map<std::string, Tensor>{{"w", w}}).first.dtype() ==
        f32);  // casts are off: a plain call
  const amp::autocast on({.dtype = bf16});
  const auto [low, inside] = half(x, std::map<std::string, Tensor>{{"w", w}});
  CHECK(low.dtype() == bf16);
  CHECK_FALSE(inside);
  CHECK(single(x.to(f16), std::map<std::string, Tensor>{{"w", w}}).first.dtype() == f32);
  CHECK(widest(x.to(f16), std::map<std::string, Tensor>{{"w", w.to(f16)}}).first.dtype() == f16);
  CHECK(widest(x.to(f16), std::map<std::string, Tensor>{{"w", w.to(bf16)}}).first.dtype() == f32);
  CHECK(single(x.to(f64), std::map<std::string, Tensor>{{"w", w.to(f64)}}).first.dtype() == f64);
}

TEST_CASE("user callables are differentiable to the f32 leaf and use the weight cache",
          "[overrides]") {
  const Tensor w = matrix();
  w.requires_grad_();
  const auto half =
      amp::half_function([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  const amp::CastStats before = amp::cast_stats();
  {
    const amp::autocast on;
    sum(half(matrix(), w) + half(matrix(), w)).backward();
  }
  CHECK(w.grad().dtype() == f32);
  CHECK((amp::cast_stats() - before).cache_hits == 1);
}

TEST_CASE("a user function's backward runs in the casting state of its forward", "[overrides]") {
  const Tensor x = matrix(), w = matrix();
  x.requires_grad_(), w.requires_grad_();
  Tensor y;
  {
    const amp::autocast on;
    y = amp::custom_function<Product>({}, x, w);
  }
  CHECK(Product::forward_dtype == f16);
  sum(y).backward();
  CHECK(Product::backward_dtype == f16);
  CHECK(Product::backward_casts);
  CHECK(x.grad().dtype() == f32);
  {
    const Tensor plain = amp::custom_function<Product>({}, x, w);
    const amp::autocast on;
    sum(plain).backward();
  }
  CHECK(Product::backward_dtype == f32);
  CHECK_FALSE(Product::backward_casts);
}

TEST_CASE("a user function's backward runs under the override of its forward", "[overrides]") {
  const Tensor x = matrix(), w = matrix();
  x.requires_grad_(), w.requires_grad_();
  Tensor y;
  {
    const amp::autocast on;
    const amp::policy_override exact{{"matmul", Precision::f32}};
    y = amp::custom_function<Product>({}, x, w);
  }
  CHECK(Product::forward_dtype == f32);
  sum(y).backward();
  CHECK(Product::backward_dtype == f32);
  {
    const amp::autocast on;
    y = amp::custom_function<Product>({}, x, w);
    const amp::policy_override exact{{"matmul", Precision::f32}};
    sum(y).backward();
  }
  CHECK(Product::backward_dtype == f16);
}

TEST_CASE("a user function with cast_inputs gets cast inputs and runs with casts off",
          "[overrides]") {
  const Tensor x = matrix().to(f16), w = matrix();
  w.requires_grad_();
  {
    const amp::autocast on;
    sum(amp::custom_function<Product>({.cast_inputs = f32}, x, w)).backward();
  }
  CHECK(Product::forward_dtype == f32);
  CHECK(Product::backward_dtype == f32);
  CHECK_FALSE(Product::backward_casts);
  CHECK_THROWS_AS(amp::custom_function<Product>({.cast_inputs = f32}, x, w),
                  DtypeError);  // nothing is cast
}
