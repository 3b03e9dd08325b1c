// The triangles of a matrix: tril and triu.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Returns x with zeros right of a diagonal of the last two dimensions, which is `diagonal` places
 *  right of the main one.
 *  Precision: match, exact.
 *  Gradient: tril of g.
 *  Errors: ShapeError for fewer than 2 dimensions. */
MZ_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);

/** Returns x with zeros left of that diagonal. Otherwise as tril. */
MZ_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace mezzo

namespace mezzo::op {

struct TriangleAttrs {
  std::int64_t diagonal = 0;  // the outermost kept diagonal; positive is right of the main one
};

/** The elements of the last two dimensions on and below a diagonal; zeros above it. */
struct Tril {
  static constexpr OpTraits traits{.name = "tril",
                                   .precision = Precision::match,
                                   .summary = "a matrix's lower triangle",
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = TriangleAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The elements of the last two dimensions on and above a diagonal; zeros below it. */
struct Triu {
  static constexpr OpTraits traits{.name = "triu",
                                   .precision = Precision::match,
                                   .summary = "a matrix's upper triangle",
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = TriangleAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using TriangleOps = type_list<Tril, Triu>;

}  // namespace mezzo::op
