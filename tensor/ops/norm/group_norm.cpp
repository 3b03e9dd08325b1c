// Shape rules and gradients of the ops in group_norm.h.
#include "group_norm.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../reduce/reduce.h"
#include "../wide.h"
#include "batch_norm.h"
#include "norm_checks.h"
#include "normalize.h"

namespace mezzo::op {

namespace {

OutSpecs normalised(Inputs in, std::int64_t groups, std::string_view op) {
  const Tensor& x = in[0];
  check_values(x, in[1], {x.shape()[1]}, "weight", op);
  check_values(x, in[2], {x.shape()[1]}, "bias", op);
  const OutSpec statistic{{x.shape()[0], groups}, compute_dtype(x.dtype())};
  return {{x.shape(), x.dtype()}, statistic, statistic, statistic};
}

}  // namespace

OutSpecs GroupNorm::infer(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  check_floating_input(x, traits.name);
  check_has_channels(x, traits.name);
  if (attrs.groups < 1)
    fail<ValueError>(
        traits.name,
        {.what = "num_groups is out of range", .got = str(attrs.groups), .expected = "at least 1"});
  if (x.shape()[1] % attrs.groups != 0)
    fail<ShapeError>(traits.name, {.what = "channels are not divisible by groups",
                                   .got = str(x, " and ", attrs.groups, " groups"),
                                   .expected = "channels divisible by groups"});
  return normalised(in, attrs.groups, traits.name);
}

OutSpecs GroupNormBackward::infer(Inputs in, const Attrs&) {
  const OutSpec per_channel{{in[1].shape()[1]}, compute_dtype(in[1].dtype())};
  return {{in[1].shape(), in[1].dtype()}, per_channel, per_channel};
}

OutSpecs InstanceNorm::infer(Inputs in, const Attrs&) {
  const Tensor& x = in[0];
  check_floating_input(x, traits.name);
  check_has_channels(x, traits.name);
  std::int64_t space = 1;
  for (int i = 2; i < x.dim(); ++i) space *= x.shape()[i];
  if (space == 1 && x.numel() > 0)
    fail<ShapeError>(traits.name, {.what = "one value per channel has no variance",
                                   .got = str(x),
                                   .expected = "more than one element per channel"});
  return normalised(in, x.shape()[1], traits.name);
}

std::span<OpInfo* const> group_norm_ops() { return infos_of(GroupNormOps{}); }

// Gradients of group_norm and instance_norm.

namespace {

/** Returns the sum over samples and space. */
Tensor over_all_but_channels(const Tensor& x) {
  std::vector<std::int64_t> dims{0};
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  return sum(x, dims);
}

Grads composite(const Saved& saved, const Tensor& gy, const GroupNormAttrs& attrs,
                std::int64_t groups) {
  const Tensor x = wide(saved.inputs[0]), g = wide(gy), weight = wide(saved.inputs[1]);
  Shape channels = Shape::filled(x.dim(), 1),
        rows{x.shape()[0], groups, x.numel() / (x.shape()[0] * groups)};
  channels[1] = x.shape()[1];
  const Normalized group(x.reshape(rows), 2, attrs.eps, true);
  const Tensor normal = group.normal.reshape(x.shape());
  const Tensor gw = weight.defined() ? g * weight.view(channels) : g;
  Grads gradients(3);
  gradients[0] = group.gradient(gw.reshape(rows), 2, true).reshape(x.shape());
  if (saved.wants(1)) gradients[1] = over_all_but_channels(g * normal);
  if (saved.wants(2)) gradients[2] = over_all_but_channels(g);
  return gradients;
}

Grads backward(const Saved& saved, const Tensor& g, const GroupNormAttrs& attrs,
               std::int64_t groups) {
  if (!saved.inputs[0].defined())  // only the bias is wanted
    return {Tensor{}, Tensor{}, over_all_but_channels(wide(g))};
  if (grad_enabled() && g.numel() > 0) return composite(saved, g, attrs, groups);
  auto [dx, dw, db] = apply_all<GroupNormBackward>(attrs, g, saved.inputs[0], saved.inputs[1],
                                                   saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

}  // namespace

Grads GroupNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<GroupNorm>();
  return op::backward(saved, gy[0], attrs, attrs.groups);
}

Grads InstanceNorm::backward(const Saved& saved, const Grads& gy) {
  return op::backward(saved, gy[0], saved.attrs<InstanceNorm>(), saved.shape(0)[1]);
}

}  // namespace mezzo::op

namespace mezzo {

Tensor group_norm(const Tensor& x, std::int64_t groups, const GroupNormOptions& options) {
  op::check_at_least_zero(options.eps, "eps", "group_norm");
  return apply_with<op::GroupNorm>({groups, options.eps}, x, options.weight, options.bias);
}

Tensor instance_norm(const Tensor& x, const InstanceNormOptions& options) {
  if (!options.use_input_stats)
    return batch_norm(x, {.running_mean = options.running_mean,
                          .running_var = options.running_var,
                          .weight = options.weight,
                          .bias = options.bias,
                          .eps = options.eps});
  op::check_at_least_zero(options.eps, "eps", "instance_norm");
  op::check_at_least_zero(options.momentum, "momentum", "instance_norm");
  for (const Tensor& running : {options.running_mean, options.running_var}) {
    op::check_running(running, "instance_norm");
    if (running.defined() && (x.dim() < 2 || !(running.shape() == Shape{x.shape()[1]})))
      fail<ShapeError>("instance_norm",
                       {.what = "running statistics do not fit the input",
                        .got = str("input ", x, " and running statistic ", running),
                        .expected = "one value per channel"});
  }
  auto results = apply_all<op::InstanceNorm>({1, options.eps}, x, options.weight, options.bias);
  if (x.numel() > 0) {
    const NoGradNoCasts plain_ops;
    op::update_running(options.running_mean, options.running_var, options.momentum,
                       mean(results[1].detach(), 0), mean(results[3].detach(), 0),
                       x.numel() / (x.shape()[0] * x.shape()[1]));
  }
  return std::move(results[0]);
}

}  // namespace mezzo
