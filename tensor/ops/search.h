// Ops that look values up: searchsorted, bucketize, isin, bincount.
#pragma once

#include "../core/op.h"

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
