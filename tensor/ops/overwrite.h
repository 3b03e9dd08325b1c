// Ops that overwrite or select elements by index or mask: index_copy, index_fill, masked_scatter,
// unique.
// See also: index.h (the other ops of this kind).
#pragma once

#include "../core/op.h"

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
