// Shape rules of normalisation over the batch.
#include "batch_norm.h"

#include "../text.h"
#include "norm_checks.h"

namespace mezzo::op {

namespace {

void check_statistics(Inputs in, const BatchNorm::Attrs& attrs) {
  const Tensor& x = in[0];
  if (!attrs.training && !(in[3].defined() && in[4].defined()))
    fail<ValueError>(BatchNorm::traits.name, {.what = "running statistics are needed outside training",
                                              .got = str("mean ", in[3], " and variance ", in[4]),
                                              .hint = "pass {.training = true}"});
  const std::int64_t channels = x.shape()[1];
  if (attrs.training && channels > 0 && x.numel() / channels == 1)
    fail<ShapeError>(BatchNorm::traits.name, {.what = "one value per channel has no variance to train on",
                                              .got = str(x),
                                              .expected = "more than one value per channel",
                                              .hint = "use a larger batch, or eval()"});
}

}  // namespace

OutSpecs BatchNorm::infer(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  check_floating_input(x, traits.name);
  check_has_channels(x, traits.name);
  const Shape channels{x.shape()[1]};
  const char* const names[] = {"weight", "bias", "running mean", "running variance"};
  for (std::size_t i = 0; i < 4; ++i) check_values(x, in[i + 1], channels, names[i], traits.name);
  check_statistics(in, attrs);
  const OutSpec statistic{channels, compute_dtype(x.dtype())};
  return {{x.shape(), x.dtype()}, statistic, statistic, statistic};
}

OutSpecs BatchNormBackward::infer(Inputs in, const Attrs&) {
  const OutSpec per_channel{{in[1].shape()[1]}, compute_dtype(in[1].dtype())};
  return {{in[1].shape(), in[1].dtype()}, per_channel, per_channel};
}

OutSpecs UpdateRunning::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

}  // namespace mezzo::op
