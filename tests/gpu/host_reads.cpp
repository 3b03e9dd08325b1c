// Training steps do not access device memory from the host. The memory is closed after each kernel
// and copy, so an access ends the program.
#include <mezzo.h>

#include <limits>
#include <optional>

#include "../emulator/memory.h"
#include "../support/catch.h"
#include "../support/optimizers.h"
#include "device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

constexpr int kReadSteps = 4, kOverflow = 1;

struct ClosedMemory {
  ClosedMemory() { emulator::close_memory_after_scopes(true); }
  ~ClosedMemory() { emulator::close_memory_after_scopes(false); }
  ClosedMemory(const ClosedMemory&) = delete;
  ClosedMemory& operator=(const ClosedMemory&) = delete;
};

struct DropoutNet : nn::Model<DropoutNet> {
  nn::Linear first = add("first", nn::Linear{4, 8});
  nn::LayerNorm norm = add("norm", nn::LayerNorm{8});
  nn::Linear second = add("second", nn::Linear{8, 3});
  Tensor forward(const Tensor& x) const {
    return second(dropout(gelu(norm(first(x))), {.p = 0.1}));
  }
};

/** Returns the loss of a batch; that of step kOverflow is infinite. */
Tensor loss_of(const DropoutNet& net, int step) {
  const double size = step == kOverflow ? std::numeric_limits<double>::infinity() : 1;
  const Tensor x = full({5, 4}, size, {.device = kDevice});
  return cross_entropy(net(x), zeros({5}, {.dtype = i64, .device = kDevice}));
}

DropoutNet net_on_device() {
  manual_seed(3);
  DropoutNet net;
  net.to(kDevice);
  return net;
}

optim::StepResult::Value expected_result(int step) {
  return step == kOverflow ? optim::StepResult::skipped : optim::StepResult::stepped;
}

}  // namespace

TEST_CASE("steps under scale_loss access no device memory", "[.host_reads]") {
  for (const optimizers::Kind& kind : optimizers::kinds())
    for (const amp::Level& level : amp::kLevels)
      for (const std::optional<double> max_norm : {std::optional<double>(), {0.5}}) {
        INFO(kind.name << " " << level.name << " " << max_norm.has_value());
        DropoutNet net = net_on_device();
        const auto optimizer = kind.make(net.parameters());
        const auto session = amp::initialize(
            net, *optimizer,
            {.opt_level = std::string(level.name), .verbosity = 0, .max_loss_scale = 64});
        const ClosedMemory closed;
        for (int step = 0; step < kReadSteps; ++step) {
          optimizer->zero_grad();
          amp::scale_loss(loss_of(net, step), *optimizer,
                          [](const Tensor& scaled) { scaled.backward(); });
          const optim::StepResult result = optimizer->step({.max_norm = max_norm});
          if (level.loss_scale == amp::kDynamic) CHECK(result == expected_result(step));
        }
      }
}

TEST_CASE("steps under GradScaler access no device memory", "[.host_reads]") {
  for (const optimizers::Kind& kind : optimizers::kinds())
    for (const bool unscales : {false, true})
      for (const std::optional<double> max_norm : {std::optional<double>(), {0.5}}) {
        INFO(kind.name << " " << unscales << " " << max_norm.has_value());
        const DropoutNet net = net_on_device();
        const auto optimizer = kind.make(net.parameters());
        amp::GradScaler scaler;
        const ClosedMemory closed;
        for (int step = 0; step < kReadSteps; ++step) {
          optimizer->zero_grad();
          scaler.scale(loss_of(net, step)).backward();
          if (unscales) scaler.unscale_(*optimizer);
          const optim::StepResult result = scaler.step(*optimizer, {.max_norm = max_norm});
          scaler.update();
          CHECK(result == expected_result(step));
        }
        CHECK(scaler.get_scale() == 32768);
      }
}
