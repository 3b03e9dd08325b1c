// Which calls take the kernels on rows of 16-byte packs, on the emulated device.
#include <algorithm>
#include <string>

#include "../../cuda/kernels/host_map.h"
#include "../emulator/fill.h"
#include "../support/catch.h"
#include "packed.h"

using namespace mezzo;
using namespace packed;

namespace {

/** Returns the number of launches of f whose kernels have `word` in their names. */
template <class F> std::int64_t launches_with(const char* word, const F& f) {
  const emulator::FillLog log;
  f();
  return std::count_if(log.launches.begin(), log.launches.end(),
                       [word](const emulator::Launch& launch) {
                         return launch.kernel.find(word) != std::string::npos;
                       });
}

/** Returns the number of launches of f on rows of packs. */
template <class F> std::int64_t packed_in(const F& f) { return launches_with("packed_", f); }

/** Returns the number of such launches of f(x) and its gradient. */
template <class F> std::int64_t packed_passes(const Tensor& x, const F& f) {
  const Tensor leaf = x.detach().requires_grad_();
  return packed_in([&] {
    const Tensor y = f(leaf);
    grad(TensorList(y), TensorList(leaf), {}, TensorList(ones_like(y)));
  });
}

Tensor rows_of(const Shape& shape, DType dtype) {
  return ones(shape, {.dtype = dtype, .device = kDevice});
}

}  // namespace

TEST_CASE("norms of whole packs take the kernels on packs, others do not", "[gpu][packed]") {
  const auto norm = [](const Tensor& x) { return layer_norm(x, {x.shape()[1]}); };
  const auto rms = [](const Tensor& x) { return rms_norm(x, {x.shape()[1]}); };
  for (const DType dtype : kDtypes) {
    INFO(name(dtype));
    CHECK(packed_passes(rows_of({3, 768}, dtype), norm) == 2);
    CHECK(packed_passes(rows_of({3, 768}, dtype), rms) == 2);
    CHECK(packed_passes(rows_of({3, 4096}, dtype), norm) == 2);
    CHECK(packed_passes(rows_of({3, 50304}, dtype), norm) == 1);  // its gradient is not held
    CHECK(packed_passes(rows_of({3, 770}, dtype), norm) == 0);
    CHECK(packed_passes(unaligned(rows_of({3, 768}, dtype)), norm) == 0);
    CHECK(packed_passes(rows_of({3, 4}, dtype), norm) == (dtype == f32 ? 2 : 0));
  }
  CHECK(packed_passes(rows_of({3, 768}, f64), norm) == 0);
  const Tensor weight = rows_of({768}, f16);
  CHECK(packed_passes(rows_of({3, 768}, bf16), [&](const Tensor& x) {
          return layer_norm(x, {768}, {.weight = weight});
        }) == 0);
  CHECK(packed_passes(rows_of({3, 768}, bf16), [&](const Tensor& x) {
          return layer_norm(x, {768}, {.weight = unaligned(weight.to(f32))});
        }) == 0);
}

TEST_CASE("softmax, cross entropy and sums of whole packs take the kernels on packs",
          "[gpu][packed]") {
  const auto soft = [](const Tensor& x) { return softmax(x, 1); };
  const auto log_soft = [](const Tensor& x) { return log_softmax(x, 1); };
  const auto entropy = [](const Tensor& x) {
    return cross_entropy(x, zeros({x.shape()[0]}, {.dtype = i64, .device = kDevice}));
  };
  for (const DType dtype : kDtypes) {
    INFO(name(dtype));
    CHECK(packed_passes(rows_of({3, 768}, dtype), soft) == 2);
    CHECK(packed_passes(rows_of({3, 50304}, dtype), log_soft) == 2);
    CHECK(packed_passes(rows_of({3, 770}, dtype), soft) == 0);
    CHECK(packed_passes(rows_of({3, 8, 8}, dtype), soft) == 0);  // not along the last dimension
    CHECK(packed_passes(unaligned(rows_of({3, 768}, dtype)), soft) == 1);  // the gradient
    CHECK(packed_passes(rows_of({300, 1000}, dtype), entropy) == 2);
    CHECK(packed_passes(rows_of({16, 50304}, dtype), entropy) == 2);
    CHECK(packed_passes(rows_of({300, 1001}, dtype), entropy) == 0);
    CHECK(packed_passes(rows_of({300, 16, 8}, dtype), [](const Tensor& x) {
            return cross_entropy(x, zeros({300, 8}, {.dtype = i64, .device = kDevice}));
          }) == 0);
    for (const int dim : {0, 1}) {
      const auto total = [dim](const Tensor& x) { return packed_in([&] { sum(x, dim); }); };
      CHECK(total(rows_of({30, 768}, dtype)) == 1);
      CHECK(total(rows_of({31, 770}, dtype)) == 0);
      // Other layouts are copied, so that the bits do not depend on them.
      CHECK(total(rows_of({16, 768}, dtype).t()) == 1);
      CHECK(total(rows_of({16, 768}, dtype).slice(1, 0, 64)) == 1);
      CHECK(total(unaligned(rows_of({30, 768}, dtype))) == 1);
    }
    CHECK(packed_in([&] { sum(rows_of({512, 10}, dtype), 0); }) == 1);  // several rows are joined
    CHECK(packed_in([&] { sum(rows_of({24, 10}, dtype), 0); }) == 0);
    CHECK(packed_in([&] { sum(rows_of({3, 5, 8}, dtype)); }) == 1);
    CHECK(packed_in([&] { sum(rows_of({3, 5, 8}, dtype), {0, 1}); }) == 1);
    CHECK(packed_in([&] { sum(rows_of({3, 5, 8}, dtype), 1); }) == 0);  // too few packs
    CHECK(packed_in([&] { sum(rows_of({3, 49, 256}, dtype), 1); }) == 1);
    const Tensor image = rows_of({3, 256, 7, 7}, dtype).to(MemoryFormat::channels_last);
    for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{2, 3}, {0, 1, 2, 3}})
      CHECK(packed_in([&] { mean(image, dims); }) == 1);
    const Tensor images = rows_of({4, 64, 32, 32}, dtype);
    CHECK(packed_in([&] { sum(images, {0, 2, 3}); }) == 2);  // planes, then images
    CHECK(packed_in([&] { sum(images.to(MemoryFormat::channels_last), {0, 2, 3}); }) == 1);
    CHECK(packed_in([&] { sum(rows_of({64, 64, 512}, dtype), {0, 2}); }) == 2);
    const auto reductions = [](const Tensor& x) {
      return packed_in([&] {
        amax(x, 1);
        argmax(x, {.dim = 1});
        var(x, 1);
        vector_norm(x, 1);
        logsumexp(x, 1);
      });
    };
    CHECK(reductions(rows_of({30, 768}, dtype)) == 5);
    CHECK(reductions(unaligned(rows_of({30, 768}, dtype))) == 5);
    CHECK(reductions(rows_of({30, 770}, dtype)) == 0);
    CHECK(reductions(rows_of({3, 768, 4}, dtype)) == 0);
  }
  CHECK(packed_in([] { sum(rows_of({30, 768}, f64), 1); }) == 0);
  CHECK(packed_in([] { sum(rows_of({30, 768}, i64), 1); }) == 0);
}

TEST_CASE("group norms of packs take the kernels on packs", "[gpu][packed]") {
  const auto norm = [](const Tensor& x) { return group_norm(x, 2); };
  for (const DType dtype : kDtypes) {
    INFO(name(dtype));
    CHECK(packed_passes(rows_of({2, 6, 4, 4}, dtype), norm) == 4);
    CHECK(packed_passes(rows_of({2, 6, 3, 3}, dtype), norm) == 0);
    // Other layouts are copied, so that the bits do not depend on them.
    CHECK(packed_passes(unaligned(rows_of({2, 6, 4, 4}, dtype)), norm) == 4);
    CHECK(packed_passes(rows_of({2, 6, 4, 4}, dtype).to(MemoryFormat::channels_last), norm) == 4);
  }
  CHECK(packed_passes(rows_of({2, 6, 4, 4}, f64), norm) == 0);
}

TEST_CASE("batch norms of packs take the kernels on packs", "[gpu][packed]") {
  const auto norm = [](const Tensor& x) { return batch_norm(x, {.training = true}); };
  const auto images = [](const Shape& shape, DType dtype) {
    return rows_of(shape, dtype).to(MemoryFormat::channels_last);
  };
  for (const DType dtype : kDtypes) {
    INFO(name(dtype));
    CHECK(packed_passes(images({16, 64, 32, 32}, dtype), norm) == 4);
    CHECK(packed_passes(rows_of({16384, 64}, dtype), norm) == 4);
    // Other layouts are copied, so that the bits do not depend on them.
    CHECK(packed_passes(unaligned(rows_of({16384, 64}, dtype)), norm) == 4);
    CHECK(packed_passes(rows_of({64, 16384}, dtype).t(), norm) == 4);
    CHECK(packed_passes(images({16, 66, 32, 32}, dtype), norm) == 0);
    CHECK(packed_passes(images({15, 64, 32, 32}, dtype), norm) == 0);  // one launch is less
    CHECK(packed_passes(images({16, 64, 32, 32}, dtype), [](const Tensor& x) {
            return batch_norm_relu(x, {.training = true}, x);
          }) == 4);
    // row-major: in one launch, or in two
    CHECK(packed_passes(rows_of({16, 64, 32, 32}, dtype), norm) == 2);
    CHECK(packed_passes(unaligned(rows_of({2, 6, 2, 4}, dtype)), norm) == 2);
    CHECK(packed_passes(rows_of({136, 2, 32, 32}, dtype), norm) == 4);
    CHECK(packed_passes(rows_of({16, 64, 3, 3}, dtype), norm) == 0);
    CHECK(packed_passes(rows_of({4, 6, 8}, dtype), [](const Tensor& x) {
            return batch_norm_relu(x, {.training = true}, x);
          }) == 2);
    // in evaluation
    const auto given = [](const Tensor& x) {
      const Tensor one = ones({x.size(1)}, {.device = kDevice});
      return batch_norm(x, {.running_mean = one, .running_var = one});
    };
    CHECK(packed_passes(rows_of({2, 6, 2, 4}, dtype), given) == 2);
    CHECK(packed_passes(images({2, 16, 3, 3}, dtype), given) == 1);  // the gradient is one launch
    CHECK(packed_passes(images({16, 64, 32, 32}, dtype), given) == 3);
    CHECK(packed_passes(images({2, 6, 3, 3}, dtype), given) == 0);
  }
}

TEST_CASE("batch norms over ranks take the kernels on packs", "[gpu][packed]") {
  const auto norm = [](const Tensor& x) {
    return detail::sync_batch_norm(x, {.training = true}, comm::Communicator());
  };
  for (const DType dtype : kDtypes) {
    INFO(name(dtype));
    CHECK(packed_passes(rows_of({16384, 64}, dtype), norm) == 4);
    CHECK(packed_passes(unaligned(rows_of({16384, 64}, dtype)), norm) == 4);
    CHECK(packed_passes(rows_of({2, 6, 2, 4}, dtype), norm) == 4);
    CHECK(packed_passes(rows_of({16, 64, 3, 3}, dtype), norm) == 0);
  }
}

TEST_CASE("a Divider divides all numbers below 2^31", "[gpu][packed]") {
  constexpr std::uint32_t kEnd = 1u << 31;
  for (const std::uint32_t by : {1u, 2u, 3u, 5u, 7u, 8u, 9u, 25u, 641u, 65535u, 65536u, 65537u,
                                 46341u, 0x55555555u, 0x7FFFFFFFu, kEnd}) {
    const gpu::Divider divider(by);
    std::int64_t wrong = 0;
    const auto check = [&](std::uint64_t n) {
      if (n < kEnd) wrong += divider.quotient(static_cast<std::uint32_t>(n)) != n / by;
    };
    for (std::uint64_t n = 0; n < 2000; ++n) check(n);
    for (std::uint64_t n = 0; n < kEnd; n += 99991) check(n);
    for (std::uint64_t quotient = 1; quotient * by <= kEnd; quotient += 1 + kEnd / by / 1000) {
      check(quotient * by - 1);
      check(quotient * by);
    }
    check(kEnd - 1);
    INFO(by);
    CHECK(wrong == 0);
  }
}

TEST_CASE("elementwise ops on packs take the kernels on packs", "[gpu][packed]") {
  const auto elementwise_in = [](const auto& f) { return launches_with("_packs_kernel", f); };
  const auto added = [&](const Tensor& x, const Tensor& y) {
    return elementwise_in([&] { x + y; });
  };
  for (const DType dtype : kDtypes) {
    INFO(name(dtype));
    const Tensor x = rows_of({6, 16}, dtype);
    CHECK(added(x, x) == 1);
    CHECK(added(x, rows_of({6, 16}, f32)) == 1);
    CHECK(added(x, rows_of({16}, dtype)) == 1);
    CHECK(added(x, tensor(2.0)) == 1);  // a number on the CPU
    CHECK(elementwise_in([&] {
            const Tensor leaf = x.detach().requires_grad_(), y = relu(leaf);
            grad(TensorList(y), TensorList(leaf), {}, TensorList(x));
          }) == 2);
    const std::int64_t casts = dtype == f32 ? 0 : 1;
    CHECK(elementwise_in([&] { x.to(f32); }) == casts);
    CHECK(elementwise_in([&] { rows_of({6, 16}, f32).to(dtype); }) == casts);
    CHECK(elementwise_in([&] { x.clone(); }) == 1);
    CHECK(added(x, rows_of({6, 1}, dtype)) == 1);
    CHECK(added(x, rows_of({1}, dtype)) == 1);
    CHECK(added(rows_of({2, 3, 4, 8}, dtype), rows_of({3, 1, 1}, dtype)) == 1);
    CHECK(elementwise_in([&] { where(rows_of({16}, boolean), x, x); }) == 1);
    CHECK(added(x, unaligned(x)) == 0);
    CHECK(added(x, rows_of({16, 6}, dtype).t()) == 0);
    CHECK(added(x, rows_of({6, 16}, f64)) == 0);
    CHECK(added(rows_of({6, 12}, dtype), rows_of({12}, dtype)) == 0);
    CHECK(elementwise_in([&] { (void)gt(x, x); }) == 1);  // bool results
    CHECK(launches_with("dropout", [&] { dropout(x); }) == 1);
    CHECK(launches_with("fill", [&] { dropout(x); }) == 0);  // no mask drawn before
  }
}

TEST_CASE("contiguous conversions of integers take the kernel for them", "[gpu][packed]") {
  const auto converted = [](const Tensor& x, DType dtype) {
    return launches_with("convert_kernel", [&] { x.to(dtype); });
  };
  for (const DType dtype : {boolean, u8, i32, i64, f64}) {
    INFO(name(dtype));
    const Tensor x = rows_of({6, 13}, dtype);
    for (const DType other : {f16, bf16, f32}) {
      CHECK(converted(x, other) == 1);
      CHECK(converted(rows_of({6, 13}, other), dtype) == 1);
      CHECK(converted(unaligned(x), other) == 0);
      CHECK(converted(x.narrow(1, 0, 8), other) == 0);
    }
  }
}

TEST_CASE("functions with a form for 16 bits take its kernels on contiguous packs",
          "[gpu][packed]") {
  const auto passes = [](const Tensor& x, const auto& f) {
    const Tensor leaf = x.detach().requires_grad_();
    return launches_with("_low_packs_kernel", [&] {
      const Tensor y = f(leaf);
      grad(TensorList(y), TensorList(leaf), {}, TensorList(ones_like(y)));
    });
  };
  const Tensor x = rows_of({6, 16}, bf16);
  for (Tensor (*f)(const Tensor&) : {&exp, &log, &sigmoid, &silu, &tanh}) CHECK(passes(x, f) == 2);
  for (const auto form : {GeluApproximation::none, GeluApproximation::tanh}) {
    const auto f = [form](const Tensor& t) { return gelu(t, {.approximate = form}); };
    CHECK(passes(x, f) == 2);
    CHECK(passes(rows_of({6, 16}, f16), f) == 2);
    CHECK(passes(rows_of({6, 16}, f32), f) == 0);
    CHECK(passes(rows_of({6, 32}, bf16).slice(1, 0, 16), f) == 0);
    CHECK(passes(unaligned(x), f) == 0);
  }
  CHECK(passes(x, &relu) == 0);
  CHECK(passes(rows_of({6, 16}, f16), [](const Tensor& t) { return tanh(t); }) == 0);
}

TEST_CASE("gelu of many numbers of 16 bits takes a table", "[gpu][packed]") {
  for (const DType dtype : {f16, bf16})
    for (const std::int64_t rows : {127, 128}) {  // 2^24 elements, and fewer
      const Tensor leaf = rows_of({rows, 131072}, dtype).requires_grad_();
      const auto tables = [](const auto& f) { return launches_with("_table_kernel", f); };
      Tensor y;
      CHECK(tables([&] { y = gelu(leaf); }) == (rows == 128 ? 1 : 0));
      const bool has_one = rows == 128 && dtype == bf16;  // derivatives
      CHECK(tables([&] { grad(TensorList(y), TensorList(leaf), {}, TensorList(leaf.detach())); }) ==
            (has_one ? 1 : 0));
    }
}

TEST_CASE("dropout of packs is one launch", "[gpu][packed]") {
  const auto launches = [](const Tensor& x) { return packed_in([&] { dropout(x, {.p = 0.5}); }); };
  for (const DType dtype : kDtypes) {
    CHECK(launches(rows_of({6, 16}, dtype)) == 1);
    CHECK(launches(rows_of({2, 8, 4, 4}, dtype).to(MemoryFormat::channels_last)) == 0);
    CHECK(launches(unaligned(rows_of({6, 16}, dtype))) == 0);
    const Tensor x = randn({40, 136}).to(dtype), leaf = x.to(kDevice).requires_grad_();
    manual_seed(3);
    const Tensor expected = dropout(x, {.p = 0.3});
    manual_seed(3);
    const Tensor y = dropout(leaf, {.p = 0.3});
    CHECK(y.to_vector<double>() == expected.to_vector<double>());
    const Tensor g = grad(TensorList(y), TensorList(leaf), {}, TensorList(ones_like(y)))[0];
    CHECK(g.to(boolean).to_vector<double>() == expected.to(boolean).to_vector<double>());
  }
  CHECK(launches(rows_of({6, 13}, f32)) == 0);
}
