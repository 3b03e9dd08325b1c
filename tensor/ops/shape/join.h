// Joining tensors: cat, stack, hstack and vstack. ops.h explains the notation and the precision
// tags.
#pragma once

#include <vector>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Concatenates tensors along `dim` into a row-major tensor. 1-D tensors of size 0 are skipped.
 *  Shape: equal sizes except along dim.
 *  Precision: promote.
 *  Gradient: slices of g, each in its operand's dtype.
 *  Errors: ValueError for an empty list; ShapeError (0-dim tensors included); IndexError for a bad
 *  dimension. */
MZ_API Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/** Joins tensors along a new dimension `dim` of the result.
 *  Shape: all equal; the result has one dimension more.
 *  Precision and gradient: as cat.
 *  Errors: ValueError for an empty list; ShapeError; IndexError for a bad dimension. */
MZ_API Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/** Joins tensors along dimension 1, or along 0 if they are 1-D; 0-dim tensors count as 1-D.
 *  Otherwise as cat. */
MZ_API Tensor hstack(const std::vector<Tensor>& tensors);

/** Joins tensors along dimension 0; a tensor of n < 2 dimensions counts as one row.
 *  Otherwise as cat. */
MZ_API Tensor vstack(const std::vector<Tensor>& tensors);

}  // namespace mezzo

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

/** Tensors joined along dimension 1, or 0 if they are 1-D; 0-dim tensors become 1-D. */
struct Hstack {
  static constexpr OpTraits traits{.name = "hstack",
                                   .precision = Precision::promote,
                                   .summary = "joins tensors side by side",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** Tensors joined along dimension 0; those of fewer than 2 dimensions become rows. */
struct Vstack {
  static constexpr OpTraits traits{.name = "vstack",
                                   .precision = Precision::promote,
                                   .summary = "joins tensors below each other",
                                   .inputs = kVariadic,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

using JoinOps = type_list<Cat, Hstack, Stack, Vstack>;

/** Returns true for operands that cat skips: 1-D tensors of size 0. */
inline bool cat_skips(const Shape& shape) { return shape.rank() == 1 && shape[0] == 0; }

}  // namespace mezzo::op
