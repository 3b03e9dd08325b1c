// Shape rules and gradients of the ops in sync_batch_norm.h.
#include "sync_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../comm/communicator.h"
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "batch_norm.h"
#include "norm_checks.h"

namespace mezzo::op {

OutSpecs ChannelMoments::infer(Inputs in, const NoAttrs&) {
  check_batch_norm_operands(in, "batch_norm");
  return {{{2 * in[0].shape()[1] + 1}, DType::f64}};
}

OutSpecs SyncBatchNorm::infer(Inputs in, const Attrs&) {
  check_batch_norm_operands(in, "batch_norm");
  const OutSpec statistic{{in[0].shape()[1]}, compute_dtype(in[0].dtype())};
  return {{in[0].shape(), in[0].dtype()}, statistic, statistic, statistic};
}

OutSpecs ChannelGradientSums::infer(Inputs in, const NoAttrs&) {
  const std::int64_t channels = in[1].shape()[1];
  const DType dtype = compute_dtype(in[1].dtype());
  return {{{channels, 2}, dtype}, {{channels}, dtype}, {{channels}, dtype}};
}

OutSpecs SyncBatchNormBackward::infer(Inputs in, const Attrs&) {
  return {{.shape = in[1].shape(), .dtype = in[1].dtype(), .format = in[1].memory_format()}};
}

std::span<OpInfo* const> sync_batch_norm_ops() { return infos_of(SyncBatchNormOps{}); }

// Gradient of batch norm over a batch on several ranks.

Grads SyncBatchNorm::backward(const Saved& saved, const Grads& gy) {
  const auto& attrs = saved.attrs<SyncBatchNorm>();
  const Tensor &x = saved.inputs[0], &mean = saved.outputs[1], &rstd = saved.outputs[2];
  auto [sums, dw, db] = apply_all<ChannelGradientSums>({}, gy[0], x, mean, rstd);
  if (!saved.wants(0)) return {{}, std::move(dw), std::move(db)};
  const std::string label = str("batch_norm(", current_module_path(), ") backward");
  attrs.group.all_reduce(sums, {.order = comm::Order::ranks, .label = label}).wait();
  Tensor dx =
      apply_with<SyncBatchNormBackward>({attrs.count}, gy[0], x, saved.inputs[1], mean, rstd, sums);
  return {std::move(dx), std::move(dw), std::move(db)};
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

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

Tensor detail::sync_batch_norm(const Tensor& x, const BatchNormOptions& options,
                               const comm::Communicator& group) {
  const ApiScope scope("batch_norm");
  op::check_batch_norm_options(options, "batch_norm");
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
    op::update_running(options.running_mean, options.running_var, options.momentum, batch.mean,
                       batch.var, static_cast<std::int64_t>(batch.count));
  if (options.num_batches_tracked.defined()) options.num_batches_tracked += 1;
  return y;
}

}  // namespace mezzo
