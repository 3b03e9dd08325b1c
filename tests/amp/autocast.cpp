#include <mezzo.h>

#include <thread>

#include "../support/catch.h"
#include "../support/throws.h"
#include "nets.h"

using namespace mezzo;
using amp::autocast;
using nets::casts;
using testing::values;

namespace {

Tensor ramp(const Shape& shape, DType dtype = f32) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(0.37 * static_cast<double>(i % 7) - 0.9);
  return tensor(values, shape, {.dtype = dtype});
}

}  // namespace

TEST_CASE("under a guard, tags decide dtypes") {
  const DType low = GENERATE(f16, bf16);
  const Tensor a = ramp({3, 4}), b = ramp({4, 2});
  const autocast on({.dtype = low});
  CHECK(matmul(a, b).dtype() == low);
  CHECK(exp(a.to(low)).dtype() == f32);
  CHECK(sum(a.to(low)).dtype() == f32);
  CHECK(relu(a).dtype() == f32);
  CHECK(relu(a.to(low)).dtype() == low);
  CHECK((a.to(low) + a).dtype() == f32);
  CHECK((a.to(low) + a.to(low)).dtype() == low);
  CHECK((a.to(f16) + a.to(bf16)).dtype() == f32);
  CHECK(matmul(a.to(low == f16 ? bf16 : f16), b).dtype() == low);
}

TEST_CASE("f64 and integers are never cast") {
  const autocast on;
  CHECK(matmul(ramp({2, 2}, f64), ramp({2, 2}, f64)).dtype() == f64);
  CHECK(exp(ramp({2}, f64)).dtype() == f64);
  CHECK(casts([] { exp(ramp({2}, f64)); }) == 0);
  CHECK(sum(tensor({1.0, 2.0}, {.dtype = i64})).dtype() == i64);
}

TEST_CASE("an explicit dtype takes precedence over the tag") {
  const autocast on;
  CHECK(sum(ramp({4}, f16), {}, {.dtype = f16}).dtype() == f16);
}

TEST_CASE("results and gradients equal those of explicit casts, bit for bit") {
  const Tensor x = ramp({5, 4}).requires_grad_(), w = ramp({4, 3}).requires_grad_();
  const auto gradients = [&](const auto& forward) {
    x.set_grad({});
    w.set_grad({});
    const Tensor loss = forward();
    loss.backward();
    std::vector<std::vector<double>> out{values(loss), values(x.grad()), values(w.grad())};
    CHECK(x.grad().dtype() == f32);
    CHECK(w.grad().dtype() == f32);
    return out;
  };
  const auto automatic = gradients([&] {
    const autocast on;
    return sum(exp(matmul(x, w)));
  });
  const auto by_hand = gradients([&] {
    const Tensor y = matmul(x.to(f16), w.to(f16));
    return sum(exp(y.to(f32)));
  });
  CHECK(automatic == by_hand);
}

TEST_CASE("guards of all kinds nest and restore the previous state") {
  const Tensor a = ramp({2, 2});
  CHECK_FALSE(autocast::is_enabled());
  {
    const autocast half;
    CHECK(autocast::is_enabled());
    CHECK(autocast::dtype() == f16);
    {
      const autocast brain({.dtype = bf16});
      CHECK(autocast::depth() == 2);
      CHECK(matmul(a, a).dtype() == bf16);
      {
        const amp::disable_casts off;
        CHECK_FALSE(autocast::is_enabled());
        CHECK(matmul(a, a).dtype() == f32);
      }
      CHECK(matmul(a, a).dtype() == bf16);
    }
    CHECK(matmul(a, a).dtype() == f16);
  }
  CHECK(matmul(a, a).dtype() == f32);
  CHECK(autocast::depth() == 0);
}

TEST_CASE("a guard ends with an exception") {
  CHECK_THROWS([] {
    const autocast on;
    matmul(ramp({2, 3}), ramp({2, 3}));
  }());
  CHECK_FALSE(autocast::is_enabled());
  const amp::disable_casts harmless;
}

TEST_CASE("guards require a 16-bit type") {
  CHECK_THROWS_AS(autocast({.dtype = f32}), DtypeError);
  CHECK_THROWS_AS(autocast({.dtype = f64}), DtypeError);
  CHECK_NOTHROW(autocast({.dtype = f32, .enabled = false}));
}

TEST_CASE("guards apply to their thread only") {
  const autocast on;
  bool elsewhere = true;
  std::thread([&] { elsewhere = autocast::is_enabled(); }).join();
  CHECK_FALSE(elsewhere);
}

TEST_CASE("backward never casts, not even under a guard opened inside it") {
  const Tensor x = ramp({3, 3}).requires_grad_(), w = ramp({3, 3});
  bool inside = true;
  DType seen = f16;
  const Tensor y = matmul(x, w);
  y.retain_grad();
  const Tensor z = y * 2;
  register_hook(z, [&](const Tensor&) {
    inside = autocast::is_enabled();
    const autocast on;
    seen = matmul(w, w).dtype();
    return Tensor{};
  });
  const autocast on;
  sum(z).backward();
  CHECK_FALSE(inside);
  CHECK(seen == f32);
  CHECK(autocast::is_enabled());
  CHECK(matmul(w, w).dtype() == f16);
}

TEST_CASE("in-place ops keep self's dtype") {
  const autocast on;
  const Tensor half = ramp({4}, f16), full = ramp({4});
  const auto expected = values((half.to(f32) + full).to(f16));
  CHECK(add_(half, full).dtype() == f16);
  CHECK(values(half) == expected);
  CHECK(casts([&] { add_(full, half); }) == 0);
}

// ---- weights ------------------------------------------------------------------------------------

TEST_CASE("a weight is cast once per region") {
  const Tensor x = ramp({2, 3}), w = ramp({3, 3}).requires_grad_();
  const autocast on;
  CHECK(casts([&] { matmul(x, w); }) == 2);
  CHECK(casts([&] { matmul(x, w); }) == 1);
  { const autocast nested({.enabled = false}); }
  CHECK(casts([&] { matmul(x, w); }) == 1);
}

TEST_CASE("the cached casts of a region are dropped at its end") {
  const Tensor x = ramp({2, 3}), w = ramp({3, 3}).requires_grad_();
  for (int i = 0; i < 2; ++i) {
    const autocast on;
    CHECK(casts([&] { matmul(x, w); }) == 2);
  }
}

TEST_CASE("a weight is cast again after a write") {
  const Tensor x = ones({1, 1}), w = ones({1, 1}).requires_grad_();
  const autocast on;
  CHECK(matmul(x, w).item<float>() == 1);
  w.detach().fill_(2);
  CHECK(matmul(x, w).item<float>() == 2);
}

TEST_CASE("grad mode and dtype are part of a cast's identity") {
  const Tensor x = ramp({2, 3}), w = ramp({3, 3}).requires_grad_();
  const autocast on;
  {
    const NoGrad no_grad;
    CHECK_FALSE(matmul(x, w).requires_grad());
  }
  CHECK(matmul(x, w).requires_grad());
  const autocast brain({.dtype = bf16});
  CHECK(matmul(x, w).dtype() == bf16);
}

TEST_CASE("a cached cast works again after a backward, and its gradients accumulate") {
  const Tensor x = ramp({2, 3}), w = ramp({3, 3}).requires_grad_();
  const autocast on;
  sum(matmul(x, w)).backward();
  const auto once = values(w.grad());
  sum(matmul(x, w)).backward();
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(values(w.grad())[i] == 2 * once[i]);
}

TEST_CASE("only casts of weights are cached") {
  const Tensor x = ramp({2, 3}), leaf = ramp({3, 3}).requires_grad_();
  const autocast on;
  const Tensor result = leaf * 2, view = leaf.t();
  for (const Tensor& w : {result, view}) {
    CHECK(casts([&] { matmul(x, w); }) == 2);
    CHECK(casts([&] { matmul(x, w); }) == 2);
  }
  const autocast uncached({.cache_enabled = false});
  CHECK(casts([&] { matmul(x, leaf); }) == 2);
  CHECK(casts([&] { matmul(x, leaf); }) == 2);
}

TEST_CASE("the cache counts lookups, and drops weights without other owners") {
  amp::CastCache cache;
  const Tensor w = ones({10}).requires_grad_();
  CHECK_FALSE(cache.find(w, f16).defined());
  cache.insert(w, f16, w.to(f16));
  CHECK(cache.find(w, f16).dtype() == f16);
  CHECK(cache.report().entries == 1);
  CHECK(cache.report().bytes == 20);
  CHECK(cache.report().hits == 1);
  CHECK(cache.report().misses == 1);
  w.detach().fill_(3);
  CHECK_FALSE(cache.find(w, f16).defined());
  CHECK(cache.report().stale == 1);
  for (int i = 0; i < 500; ++i) {
    const Tensor passing = ones({1}).requires_grad_();
    cache.insert(passing, f16, passing.to(f16));
  }
  CHECK(cache.report().entries < 130);
  cache.clear();
  CHECK(cache.report().entries == 0);
}
