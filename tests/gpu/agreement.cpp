// Device results against CPU results where the generated op tests do not reach: sizes of many
// blocks, random numbers.
#include <mezzo.h>

#include <string>
#include <vector>

#include "../support/catch.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

/** Returns integers between -8 and 8, whose sums are exact in f32. */
Tensor scattered_f32(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>(i * 7919 % 17) - 8);
  return tensor(values, shape);
}

bool same_values(const Tensor& on_device, const Tensor& on_cpu) {
  return on_device.device() == kDevice && on_device.dtype() == on_cpu.dtype() &&
         on_device.shape() == on_cpu.shape() &&
         on_device.to_vector<double>() == on_cpu.to_vector<double>();
}

}  // namespace

TEST_CASE("reductions of any length and dimension are exact for integers", "[gpu]") {
  NEED_DEVICE();
  for (const Shape& shape :
       {Shape{40000}, Shape{3, 9001}, Shape{9001, 3}, Shape{5, 300, 7}, Shape{2, 8300, 33}}) {
    INFO(str(shape));
    const Tensor x = scattered_f32(shape), y = x.to(kDevice);
    CHECK(same_values(sum(y), sum(x)));
    CHECK(same_values(argmax(y), argmax(x)));
    CHECK(same_values(count_nonzero(y), count_nonzero(x)));
    for (int dim = 0; dim < x.dim(); ++dim) {
      CHECK(same_values(sum(y, dim), sum(x, dim)));
      CHECK(same_values(argmin(y, {.dim = dim}), argmin(x, {.dim = dim})));
      CHECK(same_values(amax(y, dim), amax(x, dim)));
    }
  }
}

TEST_CASE("elementwise kernels cover every element of large and ragged tensors", "[gpu]") {
  NEED_DEVICE();
  for (const std::int64_t n : {1023, 1024, 1025, 2048, 4099, 20000}) {
    INFO(n);
    const Tensor x = scattered_f32({n}), y = x.to(kDevice);
    CHECK(same_values(y * 2 + 1, x * 2 + 1));
    CHECK(same_values(y.to(f16), x.to(f16)));
    CHECK(same_values(y.slice(0, 1, n) + y.slice(0, 0, n - 1),
                      x.slice(0, 1, n) + x.slice(0, 0, n - 1)));
    CHECK(same_values((y > 0).to(i64), (x > 0).to(i64)));
  }
  const Tensor a = scattered_f32({65, 1, 36}), row = scattered_f32({36}),
               column = scattered_f32({65, 4, 1});
  CHECK(same_values(a.to(kDevice) * row.to(kDevice) - column.to(kDevice), a * row - column));
}

TEST_CASE("random numbers have the CPU's bits", "[gpu]") {
  NEED_DEVICE();
  const auto drawn = [](Device device, DType dtype) {
    manual_seed(11);
    const TensorOptions options{.dtype = dtype, .device = device};
    std::vector<Tensor> all{rand({1001}, options), randn({1001}, options),
                            randint(0, 1000, {1001}, {.dtype = i64, .device = device}),
                            bernoulli_(empty({1001}, options), 0.3),
                            dropout(ones({7, 143}, options), {.p = 0.4})};
    uniform_(empty({9, 50}, options).t(), -3, 5);
    all.push_back(randn({33}, options));  // the same number of draws was used
    return all;
  };
  for (const DType dtype : {f64, f32, f16, bf16}) {
    INFO(name(dtype));
    const std::vector<Tensor> there = drawn(kDevice, dtype), here = drawn(cpu, dtype);
    for (std::size_t i = 0; i < there.size(); ++i) CHECK(same_values(there[i], here[i]));
  }
}

TEST_CASE("inner products and distances of many blocks are exact for integers", "[gpu]") {
  NEED_DEVICE();
  const Tensor x = scattered_f32({20001}), rows = scattered_f32({3, 1, 9001}),
               others = scattered_f32({5, 9001}) + 1;
  CHECK(same_values(dot(x.to(kDevice), x.to(kDevice)), dot(x, x)));
  CHECK(same_values(vecdot(rows.to(kDevice), others.to(kDevice)), vecdot(rows, others)));
  const Tensor a = scattered_f32({2, 70, 130}), b = scattered_f32({2, 45, 130}) * 2;
  for (const double p : {0.0, 1.0, 2.0, double{INFINITY}}) {
    INFO(p);
    const CdistOptions options{.p = p, .compute_mode = CdistMode::do_not_use_mm};
    CHECK(same_values(cdist(a.to(kDevice), b.to(kDevice), options), cdist(a, b, options)));
    CHECK(same_values(pdist(a.select(0, 0).to(kDevice), {p}), pdist(a.select(0, 0), {p})));
  }
  const Tensor here = a.clone().requires_grad_(), there = a.to(kDevice).requires_grad_();
  const auto total = [&](const Tensor& t) {
    const CdistOptions options{.p = 1};
    return sum(cdist(t, b.to(t.device()), options)) + sum(pdist(t.select(0, 1), {1}));
  };
  total(here).backward();
  total(there).backward();
  CHECK(same_values(there.grad(), here.grad()));
}

TEST_CASE("ctc_loss of many states and classes has the CPU's loss and gradient", "[gpu]") {
  NEED_DEVICE();
  // A sample has up to `length` labels, of which every third repeats the one before.
  const auto check = [](std::int64_t time, std::int64_t classes, std::int64_t length,
                        const std::vector<double>& times, const std::vector<double>& lengths) {
    const auto samples = static_cast<std::int64_t>(times.size());
    std::vector<double> labels;
    for (std::int64_t i = 0; i < samples * length; ++i)
      labels.push_back(i % 3 == 1 ? labels.back() : static_cast<double>(1 + i * 7 % (classes - 1)));
    const auto run = [&](Device device) {
      const TensorOptions integers{.dtype = i64, .device = device};
      const Tensor x = (scattered_f32({time, samples, classes}) * 0.1).to(f64).to(device);
      x.requires_grad_();
      const Tensor loss =
          ctc_loss(log_softmax(x, 2), tensor(labels, {samples, length}, integers),
                   tensor(times, {samples}, integers), tensor(lengths, {samples}, integers));
      loss.backward();
      return std::vector{loss.detach().to(cpu), x.grad().to(cpu)};
    };
    const std::vector<Tensor> there = run(kDevice), here = run(cpu);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(sum(isnan(here[i])).item<std::int64_t>() == 0);
      CHECK(amax(abs(there[i] - here[i])).item<double>() < 1e-9);
    }
  };
  check(200, 300, 80, {200., 150}, {80., 71});
  check(720, 5, 515, {720.}, {515.});  // more states than are exchanged in shared memory
}

TEST_CASE(
    "16-bit attention agrees with the CPU's within rounding, and cuDNN's passes its accuracy "
    "right",
    "[gpu]") {
  NEED_DEVICE();
  std::vector<std::string> told;
  const LogSink outer =
      set_log_sink([&](Severity, std::string_view line) { told.emplace_back(line); });
  const auto run = [](DType dtype, Device device, bool is_causal) {
    manual_seed(21);
    // Adjacent heads, in thirds of one projection.
    const Tensor x =
        randn({2, 130, 3 * 2 * 64}).to(bf16).to(f16).to(dtype).to(device).requires_grad_();
    const auto heads = [&](int third) {
      return x.slice(2, third * 2 * 64, (third + 1) * 2 * 64)
          .reshape({2, 130, 2, 64})
          .transpose(1, 2);
    };
    const Tensor y =
        scaled_dot_product_attention(heads(0), heads(1), heads(2), {.is_causal = is_causal})
            .transpose(1, 2);
    const Tensor g = randn(y.shape()).to(bf16).to(f16).to(dtype).to(device);
    y.backward(g);
    return std::vector{y.detach().to(cpu).to(f64), x.grad().to(cpu).to(f64)};
  };
  for (const bool is_causal : {false, true}) {
    const std::vector<Tensor> exact = run(f64, cpu, is_causal);
    for (const DType dtype : {f16, bf16}) {
      INFO(name(dtype) << (is_causal ? " causal" : ""));
      const std::vector<Tensor> there = run(dtype, kDevice, is_causal);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double unit = amax(abs(exact[i])).item<double>() * (dtype == f16 ? 0x1p-11 : 0x1p-8);
        CHECK(amax(abs(there[i] - exact[i])).item<double>() < 2 * unit);
      }
    }
  }
  set_log_sink(outer);
  for (const std::string& line : told) UNSCOPED_INFO(line);
  CHECK(told.empty());
}

TEST_CASE("arange and linspace have the CPU's bits", "[gpu]") {
  NEED_DEVICE();
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32, u8}) {
    INFO(name(dtype));
    const TensorOptions here{.dtype = dtype}, there{.dtype = dtype, .device = kDevice};
    for (const std::int64_t n : {0, 1, 2, 7, 100}) {
      CHECK(
          same_values(arange(static_cast<double>(n), there), arange(static_cast<double>(n), here)));
      CHECK(same_values(linspace(0.3, 91.7, n, there), linspace(0.3, 91.7, n, here)));
    }
    CHECK(same_values(arange(0.1, 30, 0.7, there), arange(0.1, 30, 0.7, here)));
    CHECK(same_values(arange(50, 3, -1.9, there), arange(50, 3, -1.9, here)));
  }
  CHECK(arange(3.0, {.device = kDevice, .requires_grad = true}).is_leaf());
}
