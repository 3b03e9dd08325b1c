// A small net and its training step, for tests of sessions.
#pragma once

#include <mezzo.h>

#include <cmath>
#include <string>
#include <vector>

#include "../support/device.h"
#include "../support/levels.h"
#include "../support/log_capture.h"
#include "../support/values.h"

namespace nets {

using namespace mezzo;
using ::LogCapture;
using testing::test_device;
using testing::values;

inline const std::vector<const char*> kLevels = levels::names();
/** Places a tensor on the device of the tests. */
inline const TensorOptions kThere{.device = test_device()};

/** Returns deterministic numbers in about -1..1, on the device of the tests. */
inline Tensor wave(const Shape& shape, double phase, DType dtype = f32) {
  const std::int64_t n = checked_numel(shape, "wave");
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(std::sin(1.7 * static_cast<double>(i) + phase));
  return tensor(values, shape, {.dtype = dtype, .device = test_device()});
}

/** A linear layer with deterministic initial values. */
struct Affine : nn::Model<Affine> {
  Affine(std::int64_t in, std::int64_t out, double phase)
      : weight(add_parameter("weight", wave({out, in}, phase))),
        bias(add_parameter("bias", wave({out}, phase + 1))) {}
  Tensor forward(const Tensor& x) const { return linear(x, weight, bias); }
  Tensor weight, bias;
};

/** A scaling layer in the role of a batch norm: kept in f32 where batch norms are. */
struct Scale : nn::Model<Scale> {
  explicit Scale(std::int64_t n)
      : weight(add_parameter("weight", ones({n}, {.device = test_device()}))),
        seen(add_buffer("seen", zeros({n}, {.device = test_device()}))) {
    set_keeps_f32_under_amp(true);
  }
  Tensor forward(const Tensor& x) const { return (x * weight).to(x.dtype()); }
  Tensor weight, seen;
};

struct Net : nn::Model<Net> {
  explicit Net(double phase = 0)
      : first(add("first", Affine(6, 8, phase))), second(add("second", Affine(8, 3, phase + 2))) {
    add_buffer("mean", wave({4}, 3));
    add_buffer("count", tensor(7.0, {.dtype = i64, .device = test_device()}));
  }
  Tensor forward(const Tensor& x) const { return second(tanh(norm(first(x)))); }
  Affine first;
  Scale norm = add("norm", Scale(8));
  Affine second;
};

/** Multiplies elements by a parameter. */
struct Factor : nn::Model<Factor> {
  explicit Factor(const std::vector<double>& start)
      : w(add_parameter("w", tensor(start, {std::ssize(start)}, {.device = test_device()}))) {}
  Tensor forward(const Tensor& x) const { return x * w; }
  Tensor w;
};

inline Tensor input() { return wave({5, 6}, 0.5); }

/** Returns the sum of squares of the outputs, small enough for every initial loss scale. */
inline Tensor loss_of(const Net& net) {
  const Tensor y = net(input());
  return sum(y * y) * 0x1p-9;
}

/** Runs one training step under the optimizer's session. */
inline optim::StepResult train_step(const Net& net, optim::Optimizer& optimizer,
                                    double blow_up = 1) {
  const Tensor loss = loss_of(net) * blow_up;
  optimizer.zero_grad();
  amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
  return optimizer.step();
}

/** Returns all parameters in f64, concatenated. */
inline std::vector<double> weights(const Net& net) {
  std::vector<double> out;
  for (const Tensor& p : net.parameters())
    for (const double x : values(p)) out.push_back(x);
  return out;
}

inline amp::Options quiet(const char* level) {
  amp::Options options;
  options.opt_level = level;
  options.verbosity = 0;
  return options;
}

inline void run_backward(const Tensor& scaled) { scaled.backward(); }

/** Returns the number of casts of autocast in a call. */
template <class F> std::int64_t casts(const F& f) {
  const amp::CastStats before = amp::cast_stats();
  f();
  return (amp::cast_stats() - before).casts;
}

inline Tensor here(const Tensor& x) { return x.to(test_device()); }

inline Tensor on_device(const std::vector<double>& x) {
  return tensor(x, {std::ssize(x)}, {.device = test_device()});
}

/** Returns the values of the first parameter. */
inline std::vector<double> first_weight(const optim::Optimizer& optimizer) {
  return values(optimizer.params()[0]);
}

/** Returns the CPU and the GPU, if there is one. */
inline std::vector<Device> devices() {
  return Device::best() == cpu ? std::vector{cpu} : std::vector{cpu, Device::best()};
}

}  // namespace nets
