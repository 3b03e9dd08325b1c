// Shape rules and gradients of the ops in batch_norm.h.
#include "batch_norm.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/compare.h"
#include "../elementwise/selection.h"
#include "../wide.h"
#include "norm_checks.h"
#include "normalize.h"

namespace mezzo::op {

namespace {

void check_statistics(Inputs in, const BatchNorm::Attrs& attrs, std::string_view op) {
  const Tensor& x = in[0];
  if (!attrs.training && !(in[3].defined() && in[4].defined()))
    fail<ValueError>(op, {.what = "running statistics are needed outside training",
                          .got = str("mean ", in[3], " and variance ", in[4]),
                          .hint = "pass {.training = true}"});
  const std::int64_t channels = x.shape()[1];
  if (attrs.training && channels > 0 && x.numel() / channels == 1)
    fail<ShapeError>(op, {.what = "one value per channel has no variance to train on",
                          .got = str(x),
                          .expected = "more than one value per channel",
                          .hint = "use a larger batch, or eval()"});
}

/** Checks the optional residual. With another dtype or shape the fused sum would differ from x +
 *  residual. */
void check_residual(const Tensor& x, const Tensor& residual, std::string_view op) {
  check_values(x, residual, x.shape(), "residual", op);
  if (residual.defined() && residual.dtype() != x.dtype())
    fail<DtypeError>(op, {.what = "the residual has another dtype than the input",
                          .got = str("input ", x, " and residual ", residual),
                          .expected = str("dtype ", x.dtype()),
                          .hint = "use relu(batch_norm(x) + residual)"});
}

OutSpecs checked(Inputs in, const BatchNorm::Attrs& attrs, std::string_view op) {
  const Tensor& x = in[0];
  check_batch_norm_operands(in, op);
  check_statistics(in, attrs, op);
  const OutSpec statistic{{x.shape()[1]}, compute_dtype(x.dtype())};
  return {{x.shape(), x.dtype()}, statistic, statistic, statistic};
}

/** Returns the spec of the gradient of x in a gradient op. */
OutSpec like_x(Inputs in) {
  return {.shape = in[1].shape(), .dtype = in[1].dtype(), .format = in[1].memory_format()};
}

}  // namespace

OutSpecs BatchNorm::infer(Inputs in, const Attrs& attrs) { return checked(in, attrs, traits.name); }

OutSpecs BatchNormRelu::infer(Inputs in, const Attrs& attrs) {
  const OutSpecs specs = checked(in, attrs, traits.name);
  check_residual(in[0], in[6], traits.name);
  return specs;
}

OutSpecs BatchNormBackward::infer(Inputs in, const Attrs&) {
  const OutSpec per_channel{{in[1].shape()[1]}, compute_dtype(in[1].dtype())};
  return {like_x(in), per_channel, per_channel};
}

OutSpecs BatchNormReluBackward::infer(Inputs in, const Attrs& attrs) {
  const OutSpecs of_norm = BatchNormBackward::infer(in, attrs);
  const OutSpec& x = of_norm.items[0];
  const OutSpec residual = in[6].defined() ? x : OutSpec{Shape{0}, x.dtype};
  return {x, of_norm.items[1], of_norm.items[2], residual};
}

OutSpecs UpdateRunning::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

std::span<OpInfo* const> batch_norm_ops() { return infos_of(BatchNormOps{}); }

// Gradients of batch_norm and batch_norm_relu.

namespace {

/** Returns a per-channel tensor in a shape that broadcasts against x. */
Tensor per_channel(const Tensor& values, const Tensor& x) {
  Shape shape = Shape::filled(x.dim(), 1);
  shape[1] = values.shape()[0];
  return values.view(shape);
}

Dims all_but_channels(const Tensor& x) {
  std::vector<std::int64_t> dims{0};
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

/** Computes the gradients in public ops. Both ops have the same operands and statistics. */
Grads composite(const Saved& saved, const Tensor& gy) {
  const auto& attrs = saved.attrs<BatchNorm>();
  const Tensor x = wide(saved.inputs[0]), g = wide(gy);
  const Dims dims = all_but_channels(x);
  const Tensor gw = saved.inputs[1].defined() ? g * per_channel(wide(saved.inputs[1]), x) : g;
  Grads gradients(saved.input_meta.size());
  Tensor normal;
  if (attrs.training) {
    const Normalized batch(x, dims, attrs.eps, true);
    normal = batch.normal;
    gradients[0] = batch.gradient(gw, dims, true);
  } else {
    const Tensor rstd = per_channel(saved.outputs[2].detach(), x);
    normal = (x - per_channel(saved.outputs[1].detach(), x)) * rstd;
    gradients[0] = gw * rstd;
  }
  if (saved.wants(1)) gradients[1] = sum(g * normal, dims);
  if (saved.wants(2)) gradients[2] = sum(g, dims);
  return gradients;
}

bool wants_only_bias(const Saved& saved) { return !saved.wants(0) && !saved.wants(1); }

Grads of_bias(const Saved& saved, const Tensor& gy) {
  Grads gradients(saved.input_meta.size());
  if (saved.wants(2)) gradients[2] = sum(wide(gy), all_but_channels(gy));
  return gradients;
}

}  // namespace

Grads BatchNorm::backward(const Saved& saved, const Grads& gy) {
  if (wants_only_bias(saved)) return of_bias(saved, gy[0]);
  if (grad_enabled()) return composite(saved, gy[0]);
  auto [dx, dw, db] =
      apply_all<BatchNormBackward>(saved.attrs<BatchNorm>(), gy[0], saved.inputs[0],
                                   saved.inputs[1], saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

Grads BatchNormRelu::backward(const Saved& saved, const Grads& gy) {
  const Tensor other = gy.size() > saved.outputs.size() ? gy.back() : Tensor{};
  if (wants_only_bias(saved) || grad_enabled()) {
    const Tensor g =
        where(gt(saved.outputs[0].detach(), 0.0), other.defined() ? add(gy[0], other) : gy[0], 0.0);
    Grads gradients = wants_only_bias(saved) ? of_bias(saved, g) : composite(saved, g);
    gradients[6] = g;
    return gradients;
  }
  const bool has_residual = saved.shape(6).rank() > 0;
  auto [dx, dw, db, residual] = apply_all<BatchNormReluBackward>(
      saved.attrs<BatchNormRelu>(), gy[0], saved.inputs[0], saved.inputs[1], saved.outputs[1],
      saved.outputs[2], saved.inputs[2], has_residual ? saved.outputs[0] : Tensor{}, other);
  return {std::move(dx), std::move(dw), std::move(db), {}, {}, {}, std::move(residual)};
}

void check_batch_norm_options(const BatchNormOptions& options, const char* op) {
  check_at_least_zero(options.eps, "eps", op);
  check_at_least_zero(options.momentum, "momentum", op);
  for (const Tensor& running : {options.running_mean, options.running_var})
    check_running(running, op);
}

void update_running(const Tensor& running_mean, const Tensor& running_var, double momentum,
                    const Tensor& mean, const Tensor& var, std::int64_t count) {
  const double unbiased = unbiased_scale(count);
  if (running_mean.defined()) apply_in_place<UpdateRunning>({momentum, 1}, running_mean, mean);
  if (running_var.defined()) apply_in_place<UpdateRunning>({momentum, unbiased}, running_var, var);
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

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
  op::check_batch_norm_options(options, Op::traits.name.data());
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
    op::update_running(options.running_mean, options.running_var, options.momentum,
                       results[1].detach(), results[3].detach(), x.numel() / x.shape()[1]);
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

}  // namespace mezzo
