// Whether the lanes of a warp load and store adjacent memory: sectors per request of norms,
// softmax, cross entropy, sums and optimizers. A program of its own, with kernels whose accesses
// are counted.
#include <mezzo.h>

#include <string>
#include <vector>

#include "../emulator/sectors.h"
#include "../support/catch.h"
#include "device.h"

using namespace mezzo;
using emulator::SectorLog, emulator::Traffic;
using testing::kDevice;

namespace {

/** Most sectors that a warp may move, as a multiple of the fewest. Lanes that load packs of 16
 *  bytes of different rows would take twice as many, single elements in f32 8 times. */
constexpr double kMostTraffic = 1.25;
/** The same where threads load the coefficients of the channels of their packs one by one, too. */
constexpr double kMostOfRows = 1.9;

/** Checks that f loads and stores adjacent memory, and that at least these bytes were seen. */
template <class F>
void check_traffic(const std::string& what, std::int64_t loaded, std::int64_t stored, const F& f,
                   double most = kMostTraffic) {
  const SectorLog log;
  f();
  const Traffic loads = log.loads(), stores = log.stores();
  INFO(what << ": loads " << loads.sectors << " of " << loads.fewest << ", stores "
            << stores.sectors << " of " << stores.fewest);
  CHECK(loads.fewest * 32 >= loaded);
  CHECK(stores.fewest * 32 >= stored);
  CHECK(loads.ratio() <= most);
  if (stored > 0) CHECK(stores.ratio() <= most);
}

std::int64_t bytes_of(const Tensor& x) {
  return x.numel() * static_cast<std::int64_t>(item_size(x.dtype()));
}

Tensor random_leaf(const Shape& shape, DType dtype) {
  return randn(shape).to(dtype).to(kDevice).requires_grad_();
}

/** Checks an op that loads x, and its gradients, which load and store as much. */
template <class F>
void check_op(const std::string& name, const Tensor& x, std::vector<Tensor> wanted, const F& f,
              double most = kMostTraffic) {
  Tensor y;
  const auto forward = [&] {
    y = f();
    (void)y.raw_data();  // computes a late result
  };
  check_traffic(name, bytes_of(x), 0, forward, most);
  wanted.push_back(x);
  const Tensor gy = ones_like(y);
  check_traffic(
      name + ", gradient", bytes_of(x), bytes_of(x),
      [&] { (void)grad(TensorList(y), wanted, {}, TensorList(gy)); }, most);
}

}  // namespace

TEST_CASE("norms, softmax and losses load and store adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {f32, f16, bf16}) {
    INFO(name(dtype));
    const Tensor x = random_leaf({64, 768}, dtype), w = random_leaf({768}, dtype),
                 b = random_leaf({768}, dtype);
    check_op("layer_norm", x, {w, b},
             [&] { return layer_norm(x, {768}, {.weight = w, .bias = b}); });
    check_op("softmax", x, {}, [&] { return softmax(x, -1); });
    check_op("log_softmax", x, {}, [&] { return log_softmax(x, -1); });
    const Tensor target = remainder(arange(64.0), 7).to(i64).to(kDevice);
    check_op("cross_entropy", x, {}, [&] { return cross_entropy(x, target); });
  }
}

TEST_CASE("cross entropy under casts loads scores of 16 bits once, forward and backward",
          "[gpu][coalescing]") {
  for (const DType dtype : {f16, bf16}) {
    INFO(name(dtype));
    const Tensor x = random_leaf({64, 768}, dtype),
                 target = remainder(arange(64.0), 7).to(i64).to(kDevice);
    const auto loss = [&] {
      const amp::autocast on({.dtype = dtype});
      return cross_entropy(x, target);
    };
    check_op("cross_entropy of 16 bits", x, {}, loss);
    const SectorLog log;
    loss().backward();
    CHECK(static_cast<double>(log.loads().fewest * 32) < 2.8 * static_cast<double>(bytes_of(x)));
    CHECK(static_cast<double>(log.stores().fewest * 32) < 1.5 * static_cast<double>(bytes_of(x)));
  }
}

TEST_CASE("batch norm loads and stores adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {f32, bf16})
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      INFO(name(dtype) << (format == MemoryFormat::channels_last ? " channels-last" : ""));
      // Channels-last kernels on packs take 2^20 elements and more.
      const std::int64_t side = format == MemoryFormat::channels_last ? 64 : 16;
      const Tensor x = randn({4, 64, side, side}).to(dtype).to(kDevice).to(format).requires_grad_(),
                   w = random_leaf({64}, f32), b = random_leaf({64}, f32);
      check_op(
          "batch_norm", x, {w, b},
          [&] { return batch_norm(x, {.weight = w, .bias = b, .training = true}); },
          format == MemoryFormat::channels_last ? kMostOfRows : kMostTraffic);
    }
}

TEST_CASE("the gradient of a residual batch norm loads each of two gradients once",
          "[gpu][coalescing]") {
  constexpr MemoryFormat kRows = MemoryFormat::contiguous, kLast = MemoryFormat::channels_last;
  for (const auto& [dtype, format] : {std::pair{f32, kRows}, {f16, kRows}, {bf16, kLast}}) {
    INFO(name(dtype) << " " << name(format));
    const std::int64_t side = format == kLast ? 64 : 16;
    const auto image = [&, dtype = dtype, format = format] {
      return randn({4, 64, side, side}).to(dtype).to(kDevice).to(format).requires_grad_();
    };
    const Tensor x = image(), residual = image(), w = random_leaf({64}, f32),
                 b = random_leaf({64}, f32), g = image().detach(), other = image().detach();
    const Tensor y = batch_norm_relu(x, {.weight = w, .bias = b, .training = true}, residual);
    const SectorLog log;
    (void)grad(std::vector{y, y}, {x, residual, w, b}, {}, std::vector{g, other});
    const auto bytes = static_cast<double>(bytes_of(x));
    const double loads = static_cast<double>(log.loads().fewest * 32) / bytes,
                 stores = static_cast<double>(log.stores().fewest * 32) / bytes;
    INFO("loads " << loads << ", stores " << stores << " of the bytes of x");
    CHECK((loads >= 6 && loads < 6.9));
    CHECK((stores >= 2 && stores < 2.1));
  }
}

TEST_CASE("sums of rows and of columns load adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {f32, f16, bf16}) {
    INFO(name(dtype));
    const Tensor x = random_leaf({512, 256}, dtype).detach();
    check_traffic("columns", bytes_of(x), 0, [&] { (void)sum(x, 0); });
    check_traffic("rows", bytes_of(x), 0, [&] { (void)sum(x, 1); });
    check_traffic("all", bytes_of(x), 0, [&] { (void)sum(x); });
  }
}

TEST_CASE("attention of f32 loads and stores adjacent memory", "[gpu][coalescing]") {
  // heads next to each other, as in a projection
  const auto heads = [](const Tensor& rows) {
    return rows.transpose(1, 2).detach().requires_grad_();
  };
  const Tensor q = heads(random_leaf({1, 64, 2, 64}, f32)),
               k = heads(random_leaf({1, 64, 2, 64}, f32)),
               v = heads(random_leaf({1, 64, 2, 64}, f32));
  check_op("attention", q, {k, v},
           [&] { return scaled_dot_product_attention(q, k, v, {.is_causal = true}); });
}

TEST_CASE("optimizers load and store adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {f32, bf16}) {
    INFO(name(dtype));
    const Tensor x = random_leaf({64, 1024}, dtype), small = random_leaf({40}, dtype);
    optim::Adam adam({x, small});
    optim::SGD sgd({x, small}, {.lr = 0.1, .momentum = 0.9});
    for (optim::Optimizer* optimizer :
         {static_cast<optim::Optimizer*>(&adam), static_cast<optim::Optimizer*>(&sgd)}) {
      x.set_grad(ones_like(x));
      small.set_grad(ones_like(small));
      // Parameter, gradient and at least one state.
      check_traffic("step", 3 * bytes_of(x), 2 * bytes_of(x), [&] { optimizer->step(); });
    }
  }
}
