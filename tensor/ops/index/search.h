// Looking values up: searchsorted, bucketize, isin, bincount. ops.h explains the notation and the
// precision tags.
#pragma once

#include "../../core/op.h"
#include "../elementwise/number.h"

namespace mezzo {

/** Options of searchsorted. */
struct SearchsortedOptions {
  bool right = false;      // the index after equal elements; false: before them
  bool out_int32 = false;  // i32 results; false: i64
  Tensor sorter = {};      // i64: the order that sorts the sequence, as argsort returns it
};

/** Returns, for each value, the index at which it would be inserted into the sequence so that the
 *  sequence stays sorted. nan counts as greatest, as in sort. Unlike PyTorch, a nan in the sequence
 *  does not attract smaller values.
 *  Shape: the values'. The sequence is 1-D, or one per line: then all sizes but the last are equal.
 *  Precision: match; compared in the promoted dtype.
 *  Gradient: none.
 *  Errors: ShapeError; SizeError for out_int32 and 2^31 or more.
 */
MZ_API Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                           const SearchsortedOptions& options = {});
/** Does the same for a number; the result is 0-dim. */
template <Number S>
Tensor searchsorted(const Tensor& sorted_sequence, S value,
                    const SearchsortedOptions& options = {}) {
  return searchsorted(sorted_sequence, operand(value), options);
}

/** Options of bucketize. */
struct BucketizeOptions {
  bool right = false;      // bucket i holds boundaries[i-1] <= x < boundaries[i]; false: < and <=
  bool out_int32 = false;  // i32 results; false: i64
};

/** Returns the number of the bucket between the sorted boundaries that each element is in: 0 below
 *  the first, boundaries.numel() above the last. As searchsorted(boundaries, x).
 *  Errors: ShapeError unless the boundaries are 1-D; as searchsorted. */
MZ_API Tensor bucketize(const Tensor& x, const Tensor& boundaries,
                        const BucketizeOptions& options = {});

/** Options of isin. */
struct IsinOptions {
  bool invert = false;  // true where the element is not in the list
};

/** Returns, as bool, whether each element equals one of `test_elements`; nan equals nothing.
 *  Shape: the elements'. The list has any shape.
 *  Precision: match; compared exactly in the promoted dtype. Memory: O(elements + list).
 *  Gradient: none. */
MZ_API Tensor isin(const Tensor& elements, const Tensor& test_elements,
                   const IsinOptions& options = {});

/** Options of bincount. */
struct BincountOptions {
  Tensor weights = {};         // added instead of 1; of x's shape
  std::int64_t minlength = 0;  // the least size of the result
};

/** Returns how often each of 0, 1, ..., max(x) is in x, or the sum of its weights. Waits for a
 *  device to read the size of the result.
 *  Shape: x [n]; the result has max(minlength, max(x) + 1) elements.
 *  Precision: match; gives i64, or f32 for weights in f32, f64 for others.
 *  Gradient: none.
 *  Errors: ShapeError unless x is 1-D and the weights have its shape; DtypeError unless x is
 *  integer; ValueError for negative numbers and a negative minlength. */
MZ_API Tensor bincount(const Tensor& x, const BincountOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** The index at which each value of operand 1 would be inserted into its line of operand 0, which
 * is sorted along the last dimension; i64. nan is greatest and -0 equals +0, as in Sort. */
struct Searchsorted {
  static constexpr OpTraits traits{.name = "searchsorted",
                                   .precision = Precision::match,
                                   .summary = "where values belong in a sorted sequence",
                                   .inputs = 2,
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    bool right = false;  // after equal elements instead of before them
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** What the kernels of Searchsorted share. */
struct SearchPlan {
  std::int64_t length = 0;           // elements of a line
  std::int64_t values_per_line = 0;  // values that are looked up in one line
  DType compute = DType::f32;        // the type of the comparisons: f32, f64 or i64
  Tensor sorted, values;             // row-major, of one dtype
};
SearchPlan search_plan(Inputs in);

/** Returns a < b where nan is greatest. */
template <class C> MZ_HD bool sorts_before(C a, C b) { return a < b || (b != b && a == a); }

/** Returns the index at which `value` is inserted into the `length` elements that load(i) gives. */
template <class C, class Load>
MZ_HD std::int64_t insertion_point(const Load& load, std::int64_t length, C value, bool right) {
  std::int64_t first = 0;
  while (length > 0) {
    const std::int64_t half = length / 2;
    const C middle = load(first + half);
    if (right ? !sorts_before(value, middle) : sorts_before(middle, value)) {
      first += half + 1;
      length -= half + 1;
    } else {
      length = half;
    }
  }
  return first;
}

/** Searchsorted with the operands the other way round and one line of boundaries. */
struct Bucketize {
  static constexpr OpTraits traits{.name = "bucketize",
                                   .precision = Precision::match,
                                   .summary = "the bucket between boundaries that each value is in",
                                   .inputs = 2,
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = Searchsorted::Attrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** True for each element of operand 0 that equals one of operand 1; the opposite if `invert`. */
struct Isin {
  static constexpr OpTraits traits{.name = "isin",
                                   .precision = Precision::match,
                                   .summary = "whether each element is one of a list",
                                   .inputs = 2,
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    bool invert = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** For each of `length` numbers, how often it is in operand 0, or the sum of the weights there
 *  (operand 1, which may be undefined). */
struct Bincount {
  static constexpr OpTraits traits{.name = "bincount",
                                   .precision = Precision::match,
                                   .summary = "how often each number occurs",
                                   .inputs = 2,
                                   .differentiable = false,
                                   .integers = Integers::only};
  struct Attrs {
    std::int64_t length = 0;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using SearchOps = type_list<Bincount, Bucketize, Isin, Searchsorted>;

}  // namespace mezzo::op
