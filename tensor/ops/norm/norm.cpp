#include "norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../../comm/communicator.h"
#include "../../core/api_scope.h"
#include "../../core/dispatch.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../reduce/reduce.h"
#include "batch_norm.h"
#include "group_norm.h"
#include "layer_norm.h"
#include "sync_batch_norm.h"

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

void check_options(const BatchNormOptions& options, const char* op) {
  check_at_least_zero(options.eps, "eps", op);
  check_at_least_zero(options.momentum, "momentum", op);
  for (const Tensor& running : {options.running_mean, options.running_var})
    check_running(running, op);
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
  check_options(options, Op::traits.name.data());
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

/** The moments of each channel over some ranks' parts of a batch. */
struct JoinedMoments {
  double count = 0;
  std::vector<double> mean, squares;  // squares: sums of squared deviations

  explicit JoinedMoments(std::size_t channels) : mean(channels), squares(channels) {}

  /** Adds a part, by the formula of Chan, Golub and LeVeque. `part` is a result of
   *  op::ChannelMoments. */
  void add(const double* part) {
    const std::size_t channels = mean.size();
    const double added = part[2 * channels], sum = count + added;
    if (added == 0) return;
    if (count == 0) {
      std::copy_n(part, channels, mean.begin());
      std::copy_n(part + channels, channels, squares.begin());
    } else {
      for (std::size_t c = 0; c < channels; ++c) {
        const double step = part[c] - mean[c];
        mean[c] += step * (added / sum);
        squares[c] += part[channels + c] + step * step * (count * (added / sum));
      }
    }
    count = sum;
  }
};

/** The statistics of a batch whose parts are on several ranks. */
struct JoinedStatistics {
  Tensor mean, var;  // [C], in the compute dtype; var is biased
  double count = 0;  // values per channel
  Tensor shrink;     // [C]: a power of 2 by which the moments of x stay finite; undefined: all do
};

/** Returns what JoinedStatistics::shrink is. */
Tensor shrink_of(const JoinedMoments& batch, const Tensor& x) {
  const double power = x.dtype() == DType::f64 ? 0x1p-600 : 0x1p-80;
  std::vector<double> factors(batch.mean.size(), 1);
  bool any = false;
  for (std::size_t c = 0; c < factors.size(); ++c) {
    if (std::isfinite(batch.mean[c]) && std::isfinite(batch.squares[c])) continue;
    factors[c] = power;
    any = true;
  }
  if (!any) return {};
  return tensor(factors, {.dtype = compute_dtype(x.dtype()), .device = x.device()});
}

/** Computes the statistics of all ranks' x. Every rank gets the same bits. */
JoinedStatistics join_statistics(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const BatchNormOptions& options, const comm::Communicator& group) {
  const NoGradNoCasts plain_ops;
  const Tensor part = apply<op::ChannelMoments>(x, weight, bias, options.running_mean,
                                                options.running_var, options.num_batches_tracked);
  const std::int64_t channels = x.shape()[1], ranks = group.size();
  const Tensor all = empty_tensor({ranks, part.numel()}, part.dtype(), part.device());
  const std::string label = str("batch_norm(", current_module_path(), ")");
  group.all_gather(part, all, {.label = label}).wait();
  const Tensor parts = all.to(cpu);
  JoinedMoments batch(static_cast<std::size_t>(channels));
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    batch.add(parts.data<double>() + rank * part.numel());
  if (batch.count == 1 && channels > 0)
    fail<ShapeError>("batch_norm",
                     {.what = "one value per channel has no variance to train on",
                      .got = str("one value per channel on ", ranks, " ranks together"),
                      .expected = "more than one value per channel",
                      .hint = "use a larger batch, or eval()"});
  for (double& squares : batch.squares) squares /= batch.count;
  const auto result = [&](const std::vector<double>& values) {
    return tensor(values, {.dtype = compute_dtype(x.dtype()), .device = x.device()});
  };
  return {result(batch.mean), result(batch.squares), batch.count, shrink_of(batch, x)};
}

}  // namespace

Tensor batch_norm(const Tensor& x, const BatchNormOptions& options) {
  return normalised_by<op::BatchNorm>(x, options);
}

Tensor batch_norm_relu(const Tensor& x, const BatchNormOptions& options, const Tensor& residual) {
  return normalised_by<op::BatchNormRelu>(x, options, residual);
}

Tensor detail::sync_batch_norm(const Tensor& x, const BatchNormOptions& options,
                               const comm::Communicator& group) {
  const ApiScope scope("batch_norm");
  check_options(options, "batch_norm");
  Tensor operands[] = {x, options.weight, options.bias};
  if (CastHook* casts = thread_hooks().cast) casts->cast(op_info<op::BatchNorm>, operands, false);
  const auto& [input, weight, bias] = operands;
  JoinedStatistics batch = join_statistics(input, weight, bias, options, group);
  Tensor y;
  if (!batch.shrink.defined()) {
    y = apply_with<op::SyncBatchNorm>({options.eps, batch.count, group}, input, weight, bias,
                                      batch.mean, batch.var);
  } else {
    // Beside a variance that leaves the range of the dtype, eps does not count.
    const CastScope no_casts(nullptr);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
    sizes[1] = batch.shrink.numel();
    const Tensor factor = batch.shrink;
    const Tensor small = input * factor.reshape(sizes).to(input.dtype());
    batch = join_statistics(small, weight, bias, options, group);
    const Tensor var = where(factor == 1, batch.var + options.eps, batch.var);
    y = apply_with<op::SyncBatchNorm>({0, batch.count, group}, small, weight, bias, batch.mean,
                                      var);
    batch.mean = batch.mean / factor;
    batch.var = batch.var / factor / factor;
  }
  const NoGradNoCasts plain_ops;
  if (batch.count > 0)
    update_running(options.running_mean, options.running_var, options.momentum, batch.mean,
                   batch.var, static_cast<std::int64_t>(batch.count));
  if (options.num_batches_tracked.defined()) options.num_batches_tracked += 1;
  return y;
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
