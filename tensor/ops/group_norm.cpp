// Shape rules of normalisation over groups of channels.
#include "group_norm.h"

#include "../core/registry.h"
#include "../text/text.h"
#include "norm_checks.h"

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

}  // namespace mezzo::op
