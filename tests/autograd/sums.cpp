// Sums of 16-bit gradients over the uses of a tensor: accumulated in f32 and rounded once.
#include <mezzo.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "../support/device.h"

using namespace mezzo;
using testing::test_device;

namespace {

constexpr int kUses = 4096;
constexpr DType kLow[] = {f16, bf16};

Tensor number(double value, DType dtype) {
  return tensor({value}, {1}, {.dtype = dtype, .device = test_device()});
}

/** Returns a number that depends kUses times on x. */
Tensor used_often(const Tensor& x, const std::function<Tensor(const Tensor&)>& use) {
  std::vector<Tensor> parts;
  for (int i = 0; i < kUses; ++i) parts.push_back(use(x));
  return sum(cat(parts));
}

double first(const Tensor& x) { return x.reshape({-1}).select(0, 0).item<double>(); }

}  // namespace

TEST_CASE("a 16-bit tensor gets the exact sum of many gradients", "[sums]") {
  for (const DType dtype : kLow)
    for (const bool leaf : {true, false})
      for (const int way : {0, 1, 2}) {
        INFO(name(dtype) << ", leaf " << leaf << ", way " << way);
        const Tensor x = number(1, dtype).requires_grad_(), y = leaf ? x : x * 1;
        const Tensor loss = used_often(y, [](const Tensor& t) { return t * 1; });
        Tensor g;
        if (way == 0) {
          loss.backward();
          g = x.grad();
        } else {
          g = grad(loss, x, {.create_graph = way == 2});
        }
        CHECK(g.dtype() == dtype);
        CHECK(first(g) == kUses);
      }
}

TEST_CASE("overlapping parts of a 16-bit tensor are summed in f32", "[sums]") {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> uses[] = {
      {"select", [](const Tensor& t) { return t.select(0, 0).reshape({1}); }},
      {"slice", [](const Tensor& t) { return t.slice(0, 0, 1); }},
      {"view", [](const Tensor& t) { return t.reshape({2, 1}).select(0, 0); }},
      {"unbind", [](const Tensor& t) { return t.unbind(0)[0].reshape({1}); }},
      {"chunk", [](const Tensor& t) { return t.chunk(2, 0)[0]; }},
      {"diagonal",
       [](const Tensor& t) { return outer(t, ones_like(t)).diagonal().slice(0, 0, 1); }},
  };
  for (const DType dtype : kLow)
    for (const auto& [what, use] : uses) {
      INFO(name(dtype) << ", " << what);
      const Tensor x =
          tensor({1, 2}, {2}, {.dtype = dtype, .device = test_device()}).requires_grad_();
      used_often(x, use).backward();
      CHECK(first(x.grad()) == kUses);
      CHECK(x.grad().select(0, 1).item<double>() == 0);
    }
}

TEST_CASE("ops that read a 16-bit tensor many times sum its gradient in f32", "[sums]") {
  const auto indices = [] { return zeros({kUses}, {.dtype = i64, .device = test_device()}); };
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> uses[] = {
      {"expand", [](const Tensor& x) { return x.expand({kUses, 1}); }},
      {"add",
       [](const Tensor& x) {
         return x + zeros({kUses, 1}, {.dtype = x.dtype(), .device = test_device()});
       }},
      {"mul",
       [](const Tensor& x) {
         return x * ones({kUses, 1}, {.dtype = x.dtype(), .device = test_device()});
       }},
      {"repeat", [](const Tensor& x) { return x.repeat({kUses}); }},
      {"index_select", [&](const Tensor& x) { return index_select(x, 0, indices()); }},
      {"gather", [&](const Tensor& x) { return gather(x, 0, indices()); }},
      {"take_along_dim", [&](const Tensor& x) { return take_along_dim(x, indices(), 0); }},
      {"index", [&](const Tensor& x) { return x[{indices()}]; }},
      {"embedding", [&](const Tensor& x) { return embedding(indices(), x.reshape({1, 1})); }},
      {"interpolate",
       [](const Tensor& x) { return interpolate(x.reshape({1, 1, 1}), {.size = {kUses}}); }},
      {"linear",
       [](const Tensor& x) {
         return linear(ones({kUses, 1}, {.dtype = x.dtype(), .device = test_device()}),
                       x.reshape({1, 1}));
       }},
      {"linear bias",
       [](const Tensor& x) {
         return linear(ones({kUses, 1}, {.dtype = x.dtype(), .device = test_device()}),
                       ones({1, 1}, {.dtype = x.dtype(), .device = test_device()}), x);
       }},
      {"prelu",
       [](const Tensor& x) {
         return prelu(-ones({kUses, 1}, {.dtype = x.dtype(), .device = test_device()}), x);
       }},
      {"where",
       [](const Tensor& x) {
         return where(ones({kUses}, {.device = test_device()}) != 0, x, zeros_like(x));
       }},
      {"pad",
       [](const Tensor& x) {
         return pad(x.reshape({1, 1, 1}), {kUses, 0}, {.mode = PadMode::replicate});
       }},
  };
  for (const DType dtype : kLow)
    for (const auto& [what, use] : uses) {
      INFO(name(dtype) << ", " << what);
      const Tensor x = number(1, dtype).requires_grad_();
      sum(use(x)).backward();
      CHECK(std::abs(first(x.grad())) == Approx(kUses).epsilon(0.001));
    }
}

TEST_CASE("one or two uses keep the rounding of 16-bit addition", "[sums]") {
  for (const DType dtype : kLow) {
    const Tensor x = number(1, dtype).requires_grad_();
    const double small = dtype == f16 ? 0x1p-11 : 0x1p-8;  // half a unit in the last place of 1
    (x * 1 + x * small * 1.0).sum().backward();
    CHECK(first(x.grad()) == 1);
    x.set_grad({});
    (x * 1 + x * small + x * small).sum().backward();
    CHECK(first(x.grad()) == 1 + 2 * small);
  }
}

TEST_CASE("a leaf that was converted after the forward pass gets a gradient of its dtype",
          "[sums]") {
  for (const DType from : {f16, bf16, f32})
    for (const DType to : {f16, bf16, f32})
      for (const int uses : {1, 2, kUses}) {
        INFO(name(from) << " to " << name(to) << ", " << uses << " uses");
        nn::Sequential net;
        struct One : nn::Model<One> {
          Tensor w = add_parameter("w", ones({1}, {.device = test_device()}));
        } model;
        model.to(from);
        std::vector<Tensor> parts;
        for (int i = 0; i < uses; ++i) parts.push_back(model.w + 0);
        const Tensor loss = sum(cat(parts));
        int hooked = 0;
        register_hook(model.w, [&](const Tensor& g) {
          hooked += g.dtype() == to ? 1 : 0;
          return Tensor{};
        });
        model.to(to);
        loss.backward();
        CHECK(model.w.grad().dtype() == to);
        CHECK(first(model.w.grad()) == uses);
        CHECK(hooked == 1);
      }
  // Uses before and after the conversion, in one backward pass.
  const Tensor w = number(1, f16).requires_grad_();
  Tensor before = w + 0;
  for (int i = 1; i < 3; ++i) before = before + w;
  w.set_grad({});
  struct Holder : nn::Model<Holder> {
    explicit Holder(const Tensor& t) { add_parameter("w", t); }
  } holder(w);
  holder.to(f32);
  (sum(before).to(f32) + sum(w * 0x1p-20)).backward();
  CHECK(w.grad().dtype() == f32);
  CHECK(first(w.grad()) == 3 + 0x1p-20);
}
