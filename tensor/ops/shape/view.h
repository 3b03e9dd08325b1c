// View ops: the shape methods of Tensor are made of these.
#pragma once

#include "../../core/op.h"

namespace mezzo::op {

/** Another shape over the same row-major order of elements. */
struct View {
  static constexpr OpTraits traits{.name = "view",
                                   .precision = Precision::match,
                                   .summary = "the same elements in another shape",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    Shape shape;  // complete: contains no -1
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Permute {
  static constexpr OpTraits traits{.name = "permute",
                                   .precision = Precision::match,
                                   .summary = "reorders dimensions",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    Shape order;  // result dimension i is input dimension order[i]
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Expand {
  static constexpr OpTraits traits{.name = "expand",
                                   .precision = Precision::match,
                                   .summary = "repeats size-1 dimensions without copying",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    Shape shape;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Elements start, start + step, ... (`length` of them) along dim. */
struct Slice {
  static constexpr OpTraits traits{.name = "slice",
                                   .precision = Precision::match,
                                   .summary = "a range of elements along one dimension",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    int dim = 0;
    std::int64_t start = 0, length = 0, step = 1;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Select {
  static constexpr OpTraits traits{
      .name = "select",
      .precision = Precision::match,
      .summary = "elements at one index of a dimension, which is removed",
      .view = true,
      .integers = Integers::keep,
      .booleans = true};
  struct Attrs {
    int dim = 0;
    std::int64_t index = 0;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** A view with explicit sizes, strides and offset. It also recreates a view of a base that was
 *  written in place. */
struct AsStrided {
  static constexpr OpTraits traits{.name = "as_strided",
                                   .precision = Precision::match,
                                   .summary = "a view with given sizes, strides and offset",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    Shape shape;
    Strides strides;
    std::int64_t offset = 0;  // from the operand's first element
    Strides base_strides;     // the operand's
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The elements x[..., i, ..., i + offset, ...] of two dimensions, as one last dimension. */
struct Diagonal {
  static constexpr OpTraits traits{.name = "diagonal",
                                   .precision = Precision::match,
                                   .summary = "a diagonal of two dimensions",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t offset = 0;  // above (right of) the main diagonal; below when negative
    int dim1 = 0, dim2 = 1;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Windows of `size` elements along dim, `step` apart; the elements of a window form a new last
 *  dimension. This is Tensor::unfold; the op `unfold` makes columns. */
struct Windows {
  static constexpr OpTraits traits{.name = "windows",
                                   .precision = Precision::match,
                                   .summary = "Tensor::unfold: sliding windows of one dimension",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    int dim = 0;
    std::int64_t size = 1, step = 1;
  };
  static Tensor view(const Tensor& x, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Returns true if two elements of a view may share one place in memory, as after expand or between
 *  windows. Also returns true for strides that do not nest, which only as_strided makes. */
bool overlaps_itself(const Shape& shape, const Strides& strides);

using ViewOps = type_list<AsStrided, Diagonal, Expand, Permute, Select, Slice, View, Windows>;

}  // namespace mezzo::op
