#include "padding.h"

#include "../tensor/text/text.h"

namespace mezzo::nn {

std::vector<std::int64_t> PadSizes::expanded(int dims, std::string_view layer) const {
  const auto count = static_cast<std::size_t>(2 * dims);
  if (all_equal_) return std::vector<std::int64_t>(count, values_[0]);
  if (values_.size() != count)
    fail<ValueError>(layer, {.what = "wrong number of paddings",
                             .got = str(values_.size()),
                             .expected = str("1 or ", count)});
  return values_;
}

namespace {

std::string text_of(const std::vector<std::int64_t>& padding) {
  std::string text;
  for (const std::int64_t p : padding) text += str(text.empty() ? "" : ", ", p);
  return text;
}

}  // namespace

#define MZ_PAD_LAYER(Layer, kMode, dims)                                             \
  Layer::Layer(const PadSizes& padding) : padding_(padding.expanded(dims, #Layer)) { \
    set_summary(text_of(padding_));                                                  \
  }                                                                                  \
  Tensor Layer::forward(const Tensor& x) const {                                     \
    return pad(x, padding_, {.mode = PadMode::kMode});                               \
  }
MZ_PAD_LAYER(CircularPad1d, circular, 1)
MZ_PAD_LAYER(CircularPad2d, circular, 2)
MZ_PAD_LAYER(CircularPad3d, circular, 3)
MZ_PAD_LAYER(ReflectionPad1d, reflect, 1)
MZ_PAD_LAYER(ReflectionPad2d, reflect, 2)
MZ_PAD_LAYER(ReflectionPad3d, reflect, 3)
MZ_PAD_LAYER(ReplicationPad1d, replicate, 1)
MZ_PAD_LAYER(ReplicationPad2d, replicate, 2)
MZ_PAD_LAYER(ReplicationPad3d, replicate, 3)
MZ_PAD_LAYER(ZeroPad1d, constant, 1)
MZ_PAD_LAYER(ZeroPad2d, constant, 2)
MZ_PAD_LAYER(ZeroPad3d, constant, 3)
#undef MZ_PAD_LAYER

#define MZ_CONSTANT_PAD_LAYER(Layer, dims)                        \
  Layer::Layer(const PadSizes& padding, double value)             \
      : padding_(padding.expanded(dims, #Layer)), value_(value) { \
    set_summary(str(text_of(padding_), ", value ", value));       \
  }                                                               \
  Tensor Layer::forward(const Tensor& x) const { return pad(x, padding_, {.value = value_}); }
MZ_CONSTANT_PAD_LAYER(ConstantPad1d, 1)
MZ_CONSTANT_PAD_LAYER(ConstantPad2d, 2)
MZ_CONSTANT_PAD_LAYER(ConstantPad3d, 3)
#undef MZ_CONSTANT_PAD_LAYER

}  // namespace mezzo::nn
