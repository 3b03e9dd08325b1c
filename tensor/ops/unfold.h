// Blocks of an image as columns, and back: unfold (im2col) and its adjoint fold (col2im).
#pragma once

#include <array>

#include "../core/op.h"

namespace mezzo::op {

/** Attributes of the blocks that slide over height and width. */
struct UnfoldAttrs {
  using Pair = std::array<std::int64_t, 2>;
  Pair sizes{0, 0};  // of the image
  Pair kernel{1, 1}, dilation{1, 1}, padding{0, 0}, stride{1, 1};

  /** Returns the number of blocks along one dimension; 0 if not even one fits. */
  std::int64_t blocks(std::size_t d) const {
    const std::int64_t room = sizes[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    return room < 0 ? 0 : room / stride[d] + 1;
  }
  std::int64_t places() const { return kernel[0] * kernel[1]; }
};

/** Blocks of an image as columns, (n, c*kh*kw, l): column l holds the elements of block l, with
 *  zeros in the padding. Operand: x (n,c,h,w) or (c,h,w). */
struct Unfold {
  static constexpr OpTraits traits{.name = "unfold",
                                   .precision = Precision::match,
                                   .summary = "sliding blocks of an image as columns",
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = UnfoldAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The adjoint: adds every column to the elements of its block, in f32 (f64, i64), rounded once. */
struct Fold {
  static constexpr OpTraits traits{
      .name = "fold",
      .precision = Precision::match,
      .summary = "an image from columns of blocks; overlapping blocks are added",
      .integers = Integers::keep,
      .booleans = true};
  using Attrs = UnfoldAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using UnfoldOps = type_list<Fold, Unfold>;

}  // namespace mezzo::op
