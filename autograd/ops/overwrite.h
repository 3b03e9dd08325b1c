// Overwriting rows and masked places, and finding distinct elements.
// Sees: tensor.
// Read next: index.h, gather.h, ../../tensor/ops/overwrite.h.
#pragma once

#include "../../tensor/tensor.h"
#include "number.h"

namespace mezzo {

/** x with the rows of src written to the rows along `dim` that a 1-D (or 0-dim) index names; of several writes to one row the last in index
 *  order stays.
 *  Shape: src is x's, with the index's size along dim. src has x's dtype. index: i64 or i32, 0..size-1.
 *  Precision: follows x, exact.   Gradient: g with those rows 0; for src, the rows of g, 0 where a
 *  later row overwrote one.   Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
MZ_API const Tensor& index_copy_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                 const Tensor& src);

/** The same with one value, a number or a 0-dim tensor, taken in x's dtype. Gradient: for the value,
 *  the sum of g over the named rows, each counted once. */
MZ_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& value);
MZ_API const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                 const Tensor& value);
template <Number S> Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, S value) {
  return index_fill(x, dim, index, operand(value));
}
template <Number S>
const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index, S value) {
  return index_fill_(self, dim, index, operand(value));
}

/** x with the elements of source, in row-major order, where the bool mask holds; x and mask broadcast.
 *  Shape: the broadcast one; source has at least as many elements as there are places, and x's dtype.
 *  Precision: follows x, exact.   Gradient: g with those places 0; for source, g at the places, 0 behind the last that was used.
 *  Errors: ShapeError, DtypeError. Synchronises with the device. */
MZ_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

struct UniqueOptions {
  bool sorted = true;  // kept for programs that come from elsewhere: the result is always in order
  bool return_inverse = false;
  bool return_counts = false;
};

struct UniqueResult {
  Tensor values;   // the distinct elements in ascending order, 1-D
  Tensor inverse;  // i64, of x's shape: the place of each element among them; undefined unless asked for
  Tensor counts;   // i64: how often each occurs; undefined unless asked for
};

/** The distinct elements of x. Every nan is distinct and comes last; -0 and +0 are one.
 *  Precision: follows x.   Gradient: none. Synchronises with the device. */
MZ_API UniqueResult unique(const Tensor& x, const UniqueOptions& options = {});

}  // namespace mezzo
