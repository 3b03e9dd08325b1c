// Ops that join tensors: cat along a dimension, stack along a new one.
// Sees: op.h.
// Read next: ../cpu/join.cpp (kernel), ../../autograd/rules/join.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** Tensors one after another along `dim`. 1-D tensors of size 0 are passed over, whatever the rank of the others. */
struct Cat {
  static constexpr OpTraits traits{.name = "cat",
                                   .precision = Precision::widest,
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

/** Tensors of one shape along a new dimension `dim`. */
struct Stack {
  static constexpr OpTraits traits{.name = "stack",
                                   .precision = Precision::widest,
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

/** True for the operands that cat passes over. */
inline bool cat_skips(const Shape& shape) { return shape.rank() == 1 && shape[0] == 0; }

}  // namespace mezzo::op
