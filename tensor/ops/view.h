// Ops that rename elements without moving them: the shape methods of Tensor come down to these.
// Sees: op.h.
// Read next: view.cpp (the methods), ../../autograd/rules/view.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** Another shape over the same row-major order of elements. */
struct View {
  static constexpr OpTraits traits{.name = "view",
                                   .precision = Precision::match,
                                   .summary = "same elements under another shape",
                                   .view = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    Shape shape;  // complete: no -1 left
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

/** Elements start, start+step, ... (length of them) along dim. */
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
  static constexpr OpTraits traits{.name = "select",
                                   .precision = Precision::match,
                                   .summary = "one index along a dimension, which vanishes",
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

/** Geometry given outright; how a view of a rewritten base is found again. */
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

/** The elements x[..., i, ..., i + offset, ...] of two dimensions, which become one at the end. */
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

/** Windows of `size` elements along dim, `step` apart; the elements of a window make up a last dimension. Tensor::unfold; the op of that name
 *  makes columns. */
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

/** True when two elements of a view are one place in memory, as after expand or among windows.
 *  Strides that do not nest count as such too: only as_strided makes others. */
bool overlaps_itself(const Shape& shape, const Strides& strides);

using ViewOps = type_list<AsStrided, Diagonal, Expand, Permute, Select, Slice, View, Windows>;

}  // namespace mezzo::op
