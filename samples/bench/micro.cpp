#include "micro.h"

#include <mezzo.h>

#include "baselines.h"
#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

constexpr int kRounds = 15;

void measure_dispatch(MicroResults& results) {
  const Tensor a = randn({4, 4}), b = randn({4, 4}), w = randn({4, 4}).requires_grad_();
  constexpr int kCalls = 20000;
  results.push_back({"4x4 add, not recorded",
                     1e6 * median_seconds(kRounds, kCalls, [&] { add(a, b); }), "us", "<= 0.5"});
  results.push_back({"4x4 mul, recorded", 1e6 * median_seconds(kRounds, kCalls, [&] { mul(w, b); }),
                     "us", "<= 1.0"});
  results.push_back({"sum(a * b).backward() on 4x4",
                     1e6 * median_seconds(kRounds, 5000, [&] { sum(w * b).backward(); }), "us",
                     "<= 8"});
  Allocator& allocator = allocator_for(cpu);
  const auto hit = [&] {
    allocator.deallocate(allocator.allocate(4096, MemoryCategory::other), 4096,
                         MemoryCategory::other);
  };
  results.push_back({"allocator hit (allocate and free)",
                     1e9 * median_seconds(kRounds, kCalls, hit), "ns", "<= 100"});
}

/** Measures ratios of times: Eigen to Mezzo on one thread, and one thread to two. */
void measure_matmul(MicroResults& results, std::int64_t n) {
  const int threads = num_threads();
  const std::string size = str(n) + "^3";
  const Tensor a = randn({n, n}), b = randn({n, n}), c = empty({n, n});
  const auto ours = [&] { matmul(a, b); };
  const auto eigen = [&] { eigen_matmul(a.data<float>(), b.data<float>(), c.data<float>(), n); };
  const int rounds = n <= 512 ? 41 : 15;
  set_num_threads(1);
  const auto [one, plain] = interleaved_seconds(rounds, ours, eigen);
  const double flops =
      2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  results.push_back({"f32 matmul " + size + ", 1 thread", flops / one * 1e-9, "GFLOP/s", ""});
  results.push_back({"  against plain Eigen", plain / one, "x", ">= 0.95"});
  const auto on_threads = [&](int count) {
    return [&, count] {
      set_num_threads(count);
      ours();
    };
  };
  if (threads > 1) {
    const auto [single, dual] = interleaved_seconds(rounds, on_threads(1), on_threads(2));
    results.push_back({"  2 threads against 1", single / dual, "x", ">= 1.8"});
  }
  set_num_threads(1);
  for (const DType low : {f16, bf16}) {
    const Tensor x = a.to(low), y = b.to(low);
    const auto [half, full] = interleaved_seconds(rounds, [&] { matmul(x, y); }, ours);
    results.push_back({str(low, " matmul ") + size + ", time against f32", half / full, "x",
                       n == 1024 && low == f16 ? "<= 1.25" : ""});
  }
  set_num_threads(threads);
}

void measure_elementwise(MicroResults& results) {
  const Tensor x = randn({1 << 20});
  const auto us = [](auto&& f) { return 1e6 * median_seconds(kRounds, 10, f); };
  results.push_back({"add of 2^20 f32", us([&] { add(x, x); }), "us", ""});
  results.push_back({"exp of 2^20 f32", us([&] { exp(x); }), "us", ""});
  results.push_back({"tanh of 2^20 f32", us([&] { tanh(x); }), "us", ""});
  results.push_back({"sum of 2^20 f32", us([&] { sum(x); }), "us", ""});
  const Tensor h = x.to(f16);
  results.push_back({"add of 2^20 f16", us([&] { add(h, h); }), "us", ""});
  results.push_back({"f32 to f16, 2^20", us([&] { x.to(f16); }), "us", ""});
  results.push_back({"f16 to f32, 2^20", us([&] { h.to(f32); }), "us", ""});
  const Tensor logits = randn({1024, 1000});
  results.push_back({"softmax 1024x1000 f32", us([&] { softmax(logits, -1); }), "us", ""});
}

}  // namespace

void run_micro(MicroResults& results) {
  const NoGrad no_grad;
  {
    const GradMode on(true);
    results.attempt("dispatch", [&] { measure_dispatch(results); });
    results.attempt("mixed precision", [&] { measure_mixed_precision(results); });
  }
  for (const std::int64_t n : {512, 1024})
    results.attempt("matmul", [&] { measure_matmul(results, n); });
  results.attempt("elementwise", [&] { measure_elementwise(results); });
}

}  // namespace samples
