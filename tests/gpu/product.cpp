// Matrix products at the level of the device kernels: operands that the public ops reject.
#include <mezzo.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "../../tensor/core/registry.h"
#include "../emulator/counters.h"
#include "../support/catch.h"
#include "device.h"

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
