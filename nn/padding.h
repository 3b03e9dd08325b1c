// Padding layers. See also: tensor/ops/shape/place.h (gradients, errors).
#pragma once

#include <initializer_list>
#include <vector>

#include "../tensor/ops/shape/place.h"
#include "model.h"

namespace mezzo::nn {

/** Numbers of padding elements around the last 1, 2 or 3 dimensions: one number for all sides, or
 *  two numbers (before, after) for each dimension, the last dimension first. Examples: 2; {1, 2}
 *  for 1d; {left, right, top, bottom} for 2d. Negative numbers remove elements. */
class MZ_API PadSizes {
 public:
  /** Converts one number for all sides. */
  PadSizes(std::int64_t value)
      : values_{value}, all_equal_(true) {}  // NOLINT: a number is meant to convert
  /** Constructs from one number for each side: 2, 4 or 6 numbers. */
  PadSizes(std::initializer_list<std::int64_t> values) : values_(values) {}

  /** Returns two numbers for each of `dims` dimensions. Errors: ValueError that names the layer for
   *  a wrong number of values. */
  std::vector<std::int64_t> expanded(int dims, std::string_view layer) const;

 private:
  std::vector<std::int64_t> values_;
  bool all_equal_ = false;
};

// nn::ReflectionPad2d{1} calls pad(x, {1, 1, 1, 1}, {.mode = PadMode::reflect});
// nn::ConstantPad1d{{1, 2}, 0.5} pads with 0.5. Errors: ValueError for a wrong number of sizes;
// calls throw as pad() does.
#define MZ_PAD_LAYER(Layer)                             \
  /** The padding of that name as a layer. */           \
  class MZ_API Layer : public Model<Layer> {            \
   public:                                              \
    /** Keeps the arguments for forward(). */           \
    explicit Layer(const PadSizes& padding);            \
    /** Calls the function. Errors: as the function. */ \
    Tensor forward(const Tensor& x) const;              \
                                                        \
   private:                                             \
    std::vector<std::int64_t> padding_;                 \
  };
MZ_PAD_LAYER(CircularPad1d)
MZ_PAD_LAYER(CircularPad2d)
MZ_PAD_LAYER(CircularPad3d)
MZ_PAD_LAYER(ReflectionPad1d)
MZ_PAD_LAYER(ReflectionPad2d)
MZ_PAD_LAYER(ReflectionPad3d)
MZ_PAD_LAYER(ReplicationPad1d)
MZ_PAD_LAYER(ReplicationPad2d)
MZ_PAD_LAYER(ReplicationPad3d)
MZ_PAD_LAYER(ZeroPad1d)
MZ_PAD_LAYER(ZeroPad2d)
MZ_PAD_LAYER(ZeroPad3d)
#undef MZ_PAD_LAYER

#define MZ_CONSTANT_PAD_LAYER(Layer)                    \
  /** The padding of that name as a layer. */           \
  class MZ_API Layer : public Model<Layer> {            \
   public:                                              \
    /** Keeps the arguments for forward(). */           \
    Layer(const PadSizes& padding, double value);       \
    /** Calls the function. Errors: as the function. */ \
    Tensor forward(const Tensor& x) const;              \
                                                        \
   private:                                             \
    std::vector<std::int64_t> padding_;                 \
    double value_;                                      \
  };
MZ_CONSTANT_PAD_LAYER(ConstantPad1d)
MZ_CONSTANT_PAD_LAYER(ConstantPad2d)
MZ_CONSTANT_PAD_LAYER(ConstantPad3d)
#undef MZ_CONSTANT_PAD_LAYER

}  // namespace mezzo::nn
