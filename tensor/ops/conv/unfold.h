// Sliding blocks of an image as columns (im2col), and the inverse (col2im). ops.h explains the
// notation and the precision tags.
#pragma once

#include <array>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "window.h"

namespace mezzo {

/** Options of unfold and fold. */
struct UnfoldOptions {
  WindowSizes dilation = 1;  // distance between the elements of a block
  WindowSizes padding = 0;   // zeros on either side of the image
  WindowSizes stride = 1;    // distance between blocks
};

/** Returns each sliding block of an image as a column. For windows along one dimension,
 *  x.unfold(dim, size, step) returns a view.
 *  Shape: x [n,c,h,w] or [c,h,w]; returns [n, c * kh * kw, l] (unbatched [c * kh * kw, l]) for l
 *  blocks in row-major order.
 *  Precision: match, exact.
 *  Gradient: fold of g.
 *  Errors: ShapeError for a wrong number of dimensions or where no block fits; ValueError for
 *  options out of range. */
MZ_API Tensor unfold(const Tensor& x, const WindowSizes& kernel, const UnfoldOptions& options = {});

/** Adds each column at the position of its block in an image of `output` sizes: the adjoint of
 *  unfold.
 *  Shape: x [n, c * kh * kw, l] or [c * kh * kw, l]; returns [n,c,h,w] or [c,h,w].
 *  Precision: match; f16, bf16 and f32 are summed in f32, one rounding.
 *  Gradient: unfold of g.
 *  Errors: as unfold. */
MZ_API Tensor fold(const Tensor& x, const WindowSizes& output, const WindowSizes& kernel,
                   const UnfoldOptions& options = {});

}  // namespace mezzo

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
