// Matrix products at the level of the device kernels: operands that the public ops reject.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <vector>

#include "../../tensor/core/registry.h"
#include "../../tensor/ops/matmul/linear_chain.h"
#include "../emulator/counters.h"
#include "../emulator/fill.h"
#include "../support/catch.h"
#include "device.h"
#include "unverified.h"

using namespace mezzo;
using testing::kDevice;

TEST_CASE("a bias of another dtype is cast, and the product still runs in the library",
          "[gpu][product]") {
  manual_seed(1);
  const Tensor a = randn({5, 16}), b = randn({24, 16}), bias = randn({24});
  const OpInfo& linear = *find_op("linear");
  for (const auto& [dtype, result, of_bias] :
       {std::tuple{bf16, bf16, f32}, std::tuple{f16, f16, bf16}, std::tuple{f32, f32, f16},
        std::tuple{f16, f32, f16}, std::tuple{bf16, bf16, f64}, std::tuple{f64, f64, f32}}) {
    INFO(str(dtype, " to ", result, ", bias ", of_bias));
    const std::vector<Tensor> in{a.to(dtype).to(kDevice), b.to(dtype).to(kDevice),
                                 bias.to(of_bias).to(kDevice)};
    std::vector<Tensor> out{zeros({5, 24}, {.dtype = result, .device = kDevice})};
    const emulator::LaunchLog log;
    constexpr NoAttrs none;
    linear.kernel[static_cast<std::size_t>(DeviceKind::cuda)](linear, in, out, &none);
    // The library adds no bias in f64.
    CHECK(std::count(log.names.begin(), log.names.end(), "cuBLASLt") == (dtype == f64 ? 0 : 1));
    const auto exact = [](const Tensor& x) { return x.to(cpu).to(f64); };
    const Tensor expected = matmul(exact(in[0]), exact(in[1]).t()) + exact(in[2]);
    const double precision = result == bf16 ? 0x1p-6 : result == f16 ? 0x1p-9 : 1e-5;
    CHECK(amax(abs(exact(out[0]) - expected)).item<double>() < 8 * precision);
  }
}

namespace {

/** Returns the results of the kernel of linear_input_grad. */
std::vector<Tensor> input_grad(const Tensor& g, const Tensor& weight, const Tensor& x,
                               MlpActivation before, bool sums) {
  const OpInfo& info = *find_op("linear_input_grad");
  const std::vector<Tensor> in{g, weight, x, x};
  const TensorOptions options{.dtype = g.dtype(), .device = kDevice};
  std::vector<Tensor> out{zeros(x.shape(), options), zeros({sums ? x.size(-1) : 0}, options)};
  const op::LinearInputGrad::Attrs attrs{.before = before, .sums = sums};
  info.kernel[static_cast<std::size_t>(DeviceKind::cuda)](info, in, out, &attrs);
  return out;
}

/** Returns how often a kernel was launched. */
std::int64_t launches_in(const emulator::FillLog& log, std::string_view kernel) {
  return std::count_if(log.launches.begin(), log.launches.end(),
                       [&](const auto& launch) { return launch.kernel == kernel; });
}

bool have_same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to(cpu).to(f64).to_vector<double>(),
                            y = b.to(cpu).to(f64).to_vector<double>();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](double one, double other) {
    return std::isnan(one) ? std::isnan(other)
                           : one == other && std::signbit(one) == std::signbit(other);
  });
}

}  // namespace

TEST_CASE("the gradient of an activation with the sums of its columns has the bits of two kernels",
          "[gpu][product]") {
  manual_seed(4);
  std::int64_t in_one = 0;
  for (const DType dtype : {f16, bf16, f32})
    for (const MlpActivation before : {MlpActivation::relu, MlpActivation::gelu})
      for (const Shape& shape :
           {Shape{1, 8}, Shape{2, 1}, Shape{7, 40}, Shape{64, 27}, Shape{65, 27}, Shape{36, 10},
            Shape{1028, 10}, Shape{1030, 10}, Shape{33, 264}, Shape{4100, 8}, Shape{3, 50, 16}})
        for (const char* kind : {"rows", "view", "unaligned"}) {
          INFO(name(dtype) << " " << str(shape) << ", " << kind << ", activation "
                           << static_cast<int>(before));
          const std::int64_t width = shape.back();
          const std::string layout = kind;
          Tensor x = randn(shape), weight = randn({3, width});
          x.flatten().narrow(0, 0, 1).fill_(std::nan(""));
          x.flatten().narrow(0, width / 2, 1).fill_(0);
          weight[1].narrow(0, width / 3, 1).fill_(HUGE_VAL);
          x = x.to(dtype).to(kDevice);
          if (layout == "view") x = x.transpose(0, 1).contiguous().transpose(0, 1);
          if (layout == "unaligned") {
            const Tensor more = zeros({x.numel() + 1}, {.dtype = dtype, .device = kDevice});
            const Tensor moved = more.narrow(0, 1, x.numel()).view(shape);
            moved.copy_(x);
            x = moved;
          }
          Shape of_g = shape;
          of_g[shape.rank() - 1] = 3;
          const Tensor g = randn(of_g).to(dtype).to(kDevice), w = weight.to(dtype).to(kDevice);
          const emulator::FillLog log;
          const std::vector<Tensor> both = input_grad(g, w, x, before, true);
          const std::int64_t fused = launches_in(log, "gated_column_sum_kernel");
          const Tensor gx = input_grad(g, w, x, before, false)[0];
          const Tensor sums = sum(gx.reshape({-1, width}), 0);
          if (layout == "rows") {
            CHECK(fused == launches_in(log, "packed_column_sum_kernel"));
            in_one += fused;
          } else if (!x.is_contiguous() || layout == "unaligned") {
            CHECK(fused == 0);
          }
          CHECK(have_same_bits(both[0], gx));
          CHECK(have_same_bits(both[1], sums));
        }
  CHECK(in_one >= 36);
}

TEST_CASE("the gradient of gelu by a table, with sums, has the bits of the formula",
          "[gpu][product]") {
  const Unverified libraries;
  manual_seed(5);
  constexpr std::int64_t kRows = 8192, kWidth = 2048, kPart = 1024;
  Tensor x = randn({kRows, kWidth}) * 3;
  x[0].narrow(0, 0, 1).fill_(0);
  x[9].narrow(0, 30, 1).fill_(HUGE_VAL);
  x[5000].narrow(0, 77, 1).fill_(-100);
  x = x.to(bf16).to(kDevice);
  const Tensor g = randn({kRows, 3}).to(bf16).to(kDevice),
               w = randn({3, kWidth}).to(bf16).to(kDevice);
  const emulator::FillLog log;
  const std::vector<Tensor> both = input_grad(g, w, x, MlpActivation::gelu, true);
  CHECK(launches_in(log, "gated_table_sum_kernel") == 1);
  for (std::int64_t row = 0; row < kRows; row += kPart) {
    const auto part = [row](const Tensor& t) { return t.narrow(0, row, kPart); };
    CHECK(have_same_bits(part(both[0]),
                         input_grad(part(g), w, part(x), MlpActivation::gelu, true)[0]));
  }
  CHECK(launches_in(log, "gated_column_sum_kernel") == kRows / kPart);
  CHECK(have_same_bits(both[1], sum(both[0], 0)));
}
