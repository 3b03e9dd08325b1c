// Ops that join tensors: cat along an existing dimension, stack along a new one.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

/** Tensors concatenated along `dim`. 1-D tensors of size 0 are skipped, whatever the rank of the
 *  others. */
struct Cat {
  static constexpr OpTraits traits{.name = "cat",
                                   .precision = Precision::promote,
                                   .summary = "joins tensors along a dimension",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Tensors of one shape joined along a new dimension `dim`. */
struct Stack {
  static constexpr OpTraits traits{.name = "stack",
                                   .precision = Precision::promote,
                                   .summary = "joins tensors of one shape along a new dimension",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using JoinOps = type_list<Cat, Stack>;

/** Returns true for operands that cat skips: 1-D tensors of size 0. */
inline bool cat_skips(const Shape& shape) { return shape.rank() == 1 && shape[0] == 0; }

}  // namespace mezzo::op
