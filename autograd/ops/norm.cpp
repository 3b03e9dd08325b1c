#include "norm.h"

#include <array>
#include <cstring>
#include <string>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/batch_norm.h"
#include "../../tensor/ops/group_norm.h"
#include "../../tensor/ops/layer_norm.h"
#include "../../tensor/text/text.h"
#include "../grad_mode.h"
#include "operators.h"
#include "reduce.h"

namespace mezzo {

namespace {

void check_at_least_zero(double value, const char* name, const char* op) {
  if (!(value >= 0))
    fail<ValueError>(
        op, {.what = str(name, " is out of range"), .got = str(value), .expected = "0 or more"});
}

/** Throws before anything is computed if an in-place update of the statistics would throw. */
void check_running(const Tensor& running, const char* op) {
  if (!running.defined() || running.dim() != 1 || running.shape()[0] < 2 ||
      running.strides()[0] != 0)
    return;
  fail<ValueError>(op, {.what = "running statistics share one place in memory",
                        .got = str(running, " with strides ", running.strides()),
                        .hint = "use x.clone() first"});
}

/** Updates the running statistics. The arguments were checked before, so it does not throw for
 *  invalid ones. */
void update_running(const Tensor& running_mean, const Tensor& running_var, double momentum,
                    const Tensor& mean, const Tensor& var, std::int64_t count) {
  const double unbiased = op::unbiased_scale(count);
  if (running_mean.defined()) apply_in_place<op::UpdateRunning>({momentum, 1}, running_mean, mean);
  if (running_var.defined())
    apply_in_place<op::UpdateRunning>({momentum, unbiased}, running_var, var);
}

/** Returns whether the kernel can update the running statistics in place: they are contiguous, the
 *  batch counter is on the device of x, and no operand is cast. If a user's tag casts operands, the
 *  kernel gets copies. */
bool kernel_can_update(const OpInfo& info, const Tensor& x, const BatchNormOptions& options) {
  const CastHook* casts = thread_hooks().cast;
  const auto is_usable = [](const Tensor& running) {
    return !running.defined() || running.is_contiguous();
  };
  const Tensor& counter = options.num_batches_tracked;
  return (!casts || casts->keeps_tag(info)) && is_usable(options.running_mean) &&
         is_usable(options.running_var) && (!counter.defined() || counter.device() == x.device());
}

/** A copy of the running statistics on the CPU, to restore them if the op throws after the kernel
 *  updated them, for example while it is recorded. */
class StatisticsBackup {
 public:
  explicit StatisticsBackup(const BatchNormOptions& options)
      : tensors_{options.running_mean, options.running_var, options.num_batches_tracked} {
    for (const Tensor& x : tensors_)
      if (is_here(x)) bytes_.append(static_cast<const char*>(x.raw_data()), size(x));
  }
  void restore() const {
    const char* from = bytes_.data();
    for (const Tensor& x : tensors_)
      if (is_here(x)) {
        std::memcpy(x.raw_data(), from, size(x));
        from += size(x);
      }
  }

 private:
  static bool is_here(const Tensor& x) { return x.defined() && x.device() == cpu; }
  static std::size_t size(const Tensor& x) {
    return static_cast<std::size_t>(x.numel()) * item_size(x.dtype());
  }

  std::array<Tensor, 3> tensors_;
  std::string bytes_;
};

/** Computes batch norm with one of its ops. The kernel also updates the running statistics where it
 *  can. */
template <class Op, class... Rest>
Tensor normalised_by(const Tensor& x, const BatchNormOptions& options, const Rest&... rest) {
  const char* const name = Op::traits.name.data();
  check_at_least_zero(options.eps, "eps", name);
  check_at_least_zero(options.momentum, "momentum", name);
  for (const Tensor& running : {options.running_mean, options.running_var})
    check_running(running, name);
  const bool updates = options.training && x.defined() && x.numel() > 0;
  const bool in_kernel = updates && kernel_can_update(op_info<Op>, x, options);
  const auto apply_op = [&] {
    return apply_all<Op>({options.training, options.eps, in_kernel, options.momentum}, x,
                         options.weight, options.bias, options.running_mean, options.running_var,
                         options.num_batches_tracked, rest...);
  };
  if (in_kernel) {
    const StatisticsBackup backup(options);
    std::array<Tensor, Op::traits.outputs> results;
    try {
      results = apply_op();
    } catch (...) {
      backup.restore();
      throw;
    }
    for (const Tensor& updated :
         {options.running_mean, options.running_var, options.num_batches_tracked})
      if (updated.defined()) updated.impl()->storage->bump_version();
    return std::move(results[0]);
  }
  auto results = apply_op();
  const NoGradNoCasts plain_ops;
  if (updates)
    update_running(options.running_mean, options.running_var, options.momentum, results[1].detach(),
                   results[3].detach(), x.numel() / x.shape()[1]);
  if (options.training && options.num_batches_tracked.defined()) options.num_batches_tracked += 1;
  return std::move(results[0]);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const BatchNormOptions& options) {
  return normalised_by<op::BatchNorm>(x, options);
}

Tensor batch_norm_relu(const Tensor& x, const BatchNormOptions& options, const Tensor& residual) {
  return normalised_by<op::BatchNormRelu>(x, options, residual);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const GroupNormOptions& options) {
  check_at_least_zero(options.eps, "eps", "group_norm");
  return apply_with<op::GroupNorm>({groups, options.eps}, x, options.weight, options.bias);
}

Tensor instance_norm(const Tensor& x, const InstanceNormOptions& options) {
  if (!options.use_input_stats)
    return batch_norm(x, {.running_mean = options.running_mean,
                          .running_var = options.running_var,
                          .weight = options.weight,
                          .bias = options.bias,
                          .eps = options.eps});
  check_at_least_zero(options.eps, "eps", "instance_norm");
  check_at_least_zero(options.momentum, "momentum", "instance_norm");
  for (const Tensor& running : {options.running_mean, options.running_var}) {
    check_running(running, "instance_norm");
    if (running.defined() && (x.dim() < 2 || !(running.shape() == Shape{x.shape()[1]})))
      fail<ShapeError>("instance_norm",
                       {.what = "running statistics do not fit the input",
                        .got = str("input ", x, " and running statistic ", running),
                        .expected = "one value per channel"});
  }
  auto results = apply_all<op::InstanceNorm>({1, options.eps}, x, options.weight, options.bias);
  if (x.numel() > 0) {
    const NoGradNoCasts plain_ops;
    update_running(options.running_mean, options.running_var, options.momentum,
                   mean(results[1].detach(), 0), mean(results[3].detach(), 0),
                   x.numel() / (x.shape()[0] * x.shape()[1]));
  }
  return std::move(results[0]);
}

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormOptions& options) {
  check_at_least_zero(options.eps, "eps", "layer_norm");
  return apply_with<op::LayerNorm>({normalized_shape, options.eps}, x, options.weight,
                                   options.bias);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const RmsNormOptions& options) {
  const double epsilon = x.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double eps = options.eps.value_or(epsilon);
  check_at_least_zero(eps, "eps", "rms_norm");
  return apply_with<op::RmsNorm>({normalized_shape, eps}, x, options.weight);
}

}  // namespace mezzo
