// Training steps of nets of realistic sizes, without their arithmetic: dry runs on the emulated
// device, which log what is launched.
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>
#include <vector>

#include "../../samples/nets/char_gpt.h"
#include "../../samples/nets/char_lstm.h"
#include "../../samples/nets/lenet.h"
#include "../../samples/nets/mlp.h"
#include "../emulator/fill.h"
#include "../emulator/memory.h"
#include "attention.h"
#include "unverified.h"

namespace dry_steps {

using namespace mezzo;
using attention::kDevice;
using emulator::Launch;

/** A dry run on a device with more memory than the host, until the end of the scope. */
struct LargeDryRun {
  Unverified libraries;  // kernels compute nothing to compare

  LargeDryRun() {
    empty_cache(kDevice);
    emulator::set_memory_size(std::size_t{60} << 30);
  }
  ~LargeDryRun() {
    empty_cache(kDevice);
    emulator::set_memory_size(std::size_t{16} << 30);
  }
  LargeDryRun(const LargeDryRun&) = delete;
  LargeDryRun& operator=(const LargeDryRun&) = delete;

  /** Creates the cached unit gradients, and the counters of kernels that join sums, before the dry
   *  run, in which kernels do nothing. */
  static bool make_cached() {
    for (const DType dtype : {f16, bf16, f32, f64})
      (ones({}, {.dtype = dtype, .device = kDevice, .requires_grad = true}) * 1.0).backward();
    const Tensor x = ones({2, 64}, {.dtype = bf16, .device = kDevice});
    const nn::LayerNorm norm{64};
    norm.to(kDevice);
    sum(norm(x)).backward();
    return true;
  }
  bool has_cached = make_cached();
  emulator::DryRun dry;
  attention::OwnKernels own;  // library results cannot be verified in a dry run
};

using Loss = std::function<Tensor(const Tensor& x, const Tensor& target)>;

/** Returns the launches of the second training step of a net at a level, with Adam. */
template <class Net>
std::vector<Launch> step_of(const Net& net, const std::string& level, const Tensor& x,
                            const Tensor& target, const Loss& loss) {
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  const auto step = [&] {
    optimizer.zero_grad();
    amp::scale_loss(loss(x, target), optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
  };
  step();
  const emulator::FillLog log;
  step();
  return log.launches;
}

inline Tensor classes(const Shape& shape) {
  return zeros(shape, {.dtype = i64, .device = kDevice});
}

inline constexpr samples::CharGptOptions kGpt2{
    .vocabulary = 50304, .block = 1024, .layers = 12, .heads = 12, .width = 768};

inline std::vector<Launch> gpt_step(const samples::CharGptOptions& options, std::int64_t batch,
                                    const std::string& level) {
  const Tensor x = classes({batch, options.block});
  const samples::CharGpt net(options);
  return step_of(net, level, x, x, [&](const Tensor& text, const Tensor& target) {
    return cross_entropy(net(text).flatten(0, 1), target.flatten());
  });
}

inline std::vector<Launch> lstm_step(std::int64_t batch, const std::string& level) {
  const Tensor x = classes({256, batch});
  const samples::CharLstm net({.vocabulary = 65});
  return step_of(net, level, x, x, [&](const Tensor& text, const Tensor& target) {
    return cross_entropy(net(text).logits.flatten(0, 1), target.flatten());
  });
}

/** The step of a net that classifies images. */
template <class Net>
std::vector<Launch> image_step(const Net& net, const Tensor& images, const std::string& level) {
  return step_of(
      net, level, images, classes({images.size(0)}),
      [&](const Tensor& x, const Tensor& target) { return cross_entropy(net(x), target); });
}

inline std::vector<Launch> resnet_step(MemoryFormat format, const std::string& level) {
  const nn::models::ResNet net = nn::models::resnet50({.zero_init_residual = true});
  net.to(format);
  return image_step(net, zeros({256, 3, 224, 224}, {.device = kDevice}).to(format), level);
}

template <class Net>
std::vector<Launch> digits_step(const Net& net, std::int64_t batch, const std::string& level) {
  return image_step(net, zeros({batch, 1, 28, 28}, {.device = kDevice}), level);
}

}  // namespace dry_steps
