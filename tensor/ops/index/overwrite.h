// Overwriting rows and masked elements, and finding distinct elements. ops.h explains the notation
// and the precision tags.
#pragma once

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../elementwise/number.h"

namespace mezzo {

/** Returns x with the rows of src written to the rows along `dim` that a 1-D (or 0-dim) index
 *  selects. Where several write to one row, the last in index order is kept.
 *  Shape: x's. src is x's, with the index's size along dim, and has x's dtype. index: i64 or i32,
 *  0..size-1.
 *  Precision: match, exact.
 *  Gradient: for x, g with 0 in those rows; for src, the rows of g, 0 where a later row overwrote
 *  one.
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/** Overwrites self with index_copy(self, dim, index, src) and returns it. */
MZ_API const Tensor& index_copy_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                 const Tensor& src);

/** Returns x with one value, a number or a 0-dim tensor, rounded to x's dtype, in the rows that the
 *  index selects. Otherwise as index_copy.
 *  Gradient: for the value, the sum of g over the selected rows, each counted once. */
MZ_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index,
                         const Tensor& value);
/** Overwrites self with index_fill(self, dim, index, value) and returns it. */
MZ_API const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                 const Tensor& value);
/** Does the same with a C++ number as the value. */
template <Number S>
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, S value) {
  return index_fill(x, dim, index, operand(value));
}
/** Does the same in place with a C++ number as the value. */
template <Number S>
const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index, S value) {
  return index_fill_(self, dim, index, operand(value));
}

/** Returns x with the elements of source, in row-major order, where the bool mask is true; x and
 *  mask broadcast. Synchronises with the device.
 *  Shape: the broadcast shape. source has x's dtype, and at least as many elements as the mask
 *  selects.
 *  Precision: match, exact.
 *  Gradient: for x, g with 0 at the selected positions; for source, g at them, 0 for unused
 *  elements.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

/** Options of unique. */
struct UniqueOptions {
  bool sorted = true;  // ignored, for compatibility with PyTorch: the result is always sorted
  bool return_inverse = false;  // fill in UniqueResult::inverse
  bool return_counts = false;   // fill in UniqueResult::counts
};

/** The result of unique. */
struct UniqueResult {
  Tensor values;   // the distinct elements in ascending order, 1-D
  Tensor inverse;  // i64, of x's shape: each element's index in values; undefined by default
  Tensor counts;   // i64: how often each value occurs; undefined by default
};

/** Returns the distinct elements of x. Every nan is distinct and comes last; -0 and +0 are one
 *  element. Synchronises with the device.
 *  Precision: match.
 *  Gradient: none. */
MZ_API UniqueResult unique(const Tensor& x, const UniqueOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** x with the rows of src written to the rows that a 1-D (or 0-dim) index selects. If several rows
 *  are written to one place, the last wins. Operands: x, index, src. */
struct IndexCopy {
  static constexpr OpTraits traits{.name = "index_copy",
                                   .precision = Precision::match,
                                   .summary = "overwrites rows at given indices along a dimension",
                                   .inputs = 3,
                                   .needs = {input(1), kNothing, input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** x with one value written to the rows that index selects. Operands: x, index, value (0-dim). */
struct IndexFill {
  static constexpr OpTraits traits{
      .name = "index_fill",
      .precision = Precision::match,
      .summary = "fills rows at given indices along a dimension with one value",
      .inputs = 3,
      .in_place = true,
      .integers = Integers::keep,
      .booleans = true};
  using Attrs = IndexCopy::Attrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** x with consecutive elements of source written where the mask is true. Operands: x, mask,
 *  source. */
struct MaskedScatter {
  static constexpr OpTraits traits{.name = "masked_scatter",
                                   .precision = Precision::match,
                                   .summary = "writes elements of a source where the mask is true",
                                   .inputs = 3,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

/** Results: the distinct elements in order, for each element of x its index among them, and the
 *  number of times each occurs. */
struct Unique {
  static constexpr OpTraits traits{.name = "unique",
                                   .precision = Precision::match,
                                   .summary = "distinct elements, sorted",
                                   .outputs = 3,
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

using OverwriteOps = type_list<IndexCopy, IndexFill, MaskedScatter, Unique>;

/** Returns one value expanded to rows for index_copy, in x's dtype. Errors, naming `op`: ShapeError
 *  unless value is 0-dim; DtypeError, IndexError for index and dim. */
MZ_API Tensor filled_rows(std::string_view op, const Tensor& x, std::int64_t dim,
                          const Tensor& index, const Tensor& value);

}  // namespace mezzo::op
