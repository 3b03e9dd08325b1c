// Elementwise comparisons, tests, logic and bit operations. None has a gradient. pointwise.h says
// what elementwise functions have in common; operators.h has the operators < == & ...
#pragma once

#include "formula.h"
#include "number.h"

namespace mezzo {

/** Returns bools: true where a == b; false where either is nan.
 *  Precision: promote; both sides are rounded to the promoted dtype, so full({1}, 0.1, f16) == 0.1
 *  holds. */
MZ_API Tensor eq(const Tensor& a, const Tensor& b);
/** Returns bools: true where a != b or either is nan. Otherwise as eq. */
MZ_API Tensor ne(const Tensor& a, const Tensor& b);
/** Returns bools: true where a < b; false where either is nan. Otherwise as eq. */
MZ_API Tensor lt(const Tensor& a, const Tensor& b);
/** Returns bools: true where a <= b; false where either is nan. Otherwise as eq. */
MZ_API Tensor le(const Tensor& a, const Tensor& b);
/** Returns bools: true where a > b; false where either is nan. Otherwise as eq. */
MZ_API Tensor gt(const Tensor& a, const Tensor& b);
/** Returns bools: true where a >= b; false where either is nan. Otherwise as eq. */
MZ_API Tensor ge(const Tensor& a, const Tensor& b);
/** Overwrites self with eq(self, other), as 0 or 1 in self's dtype, and returns it. */
MZ_API const Tensor& eq_(const Tensor& self, const Tensor& other);
/** Overwrites self with ne(self, other), as 0 or 1 in self's dtype, and returns it. */
MZ_API const Tensor& ne_(const Tensor& self, const Tensor& other);
/** Overwrites self with lt(self, other), as 0 or 1 in self's dtype, and returns it. */
MZ_API const Tensor& lt_(const Tensor& self, const Tensor& other);
/** Overwrites self with le(self, other), as 0 or 1 in self's dtype, and returns it. */
MZ_API const Tensor& le_(const Tensor& self, const Tensor& other);
/** Overwrites self with gt(self, other), as 0 or 1 in self's dtype, and returns it. */
MZ_API const Tensor& gt_(const Tensor& self, const Tensor& other);
/** Overwrites self with ge(self, other), as 0 or 1 in self's dtype, and returns it. */
MZ_API const Tensor& ge_(const Tensor& self, const Tensor& other);

/** Returns whether a and b have the same shape and equal elements after promotion; false where
 *  there is a nan. Synchronises with the device. */
MZ_API bool equal(const Tensor& a, const Tensor& b);

/** Options of allclose and isclose. Source of the defaults: PyTorch. */
struct CloseOptions {
  double rtol = 1e-5;      // allowed difference per size of b's element
  double atol = 1e-8;      // allowed difference besides
  bool equal_nan = false;  // two nan are close
};

/** Returns bools: true where |a - b| <= atol + rtol |b|, computed in f64, and where a equals b. An
 *  infinite element is close to an equal one only. Operands broadcast; integers are compared as
 *  f64.
 *  Gradient: none.
 *  Errors: ShapeError; DtypeError for different dtypes; ValueError for tolerances below 0. */
MZ_API Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/** Returns whether all elements are close. Empty: true. Synchronises with the device.
 *  Errors: as isclose. */
MZ_API bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

/** Returns bools: true for elements that are neither infinite nor nan. Integers are always
 *  finite. */
MZ_API Tensor isfinite(const Tensor& x);
/** Returns bools: true for elements that are +inf or -inf. Integers never are. */
MZ_API Tensor isinf(const Tensor& x);
/** Returns bools: true for elements that are nan. Integers never are. */
MZ_API Tensor isnan(const Tensor& x);

/** Returns bools, for operands of any dtypes: true where both elements are nonzero. nan counts as
 *  nonzero. */
MZ_API Tensor logical_and(const Tensor& a, const Tensor& b);
/** Returns bools: true where the element is zero, for any dtype. */
MZ_API Tensor logical_not(const Tensor& x);
/** Returns bools: true where an element is nonzero. Otherwise as logical_and. */
MZ_API Tensor logical_or(const Tensor& a, const Tensor& b);
/** Returns bools: true where exactly one element is nonzero. Otherwise as logical_and. */
MZ_API Tensor logical_xor(const Tensor& a, const Tensor& b);

/** Returns the bitwise and of integers; of bools, logical_and.
 *  Errors: DtypeError for floating-point operands, ShapeError. */
MZ_API Tensor bitwise_and(const Tensor& a, const Tensor& b);
/** Returns the complement of integers; of bools, logical_not.
 *  Errors: DtypeError for floating-point operands. */
MZ_API Tensor bitwise_not(const Tensor& x);
/** Returns the bitwise or of integers; of bools, logical_or. Errors as bitwise_and. */
MZ_API Tensor bitwise_or(const Tensor& a, const Tensor& b);
/** Returns the bitwise exclusive or of integers; of bools, logical_xor. Errors as bitwise_and. */
MZ_API Tensor bitwise_xor(const Tensor& a, const Tensor& b);

// Comparisons with a C++ number.
#define MZ_WITH_NUMBER(function)                                                                \
  template <Number S> Tensor function(const Tensor& a, S b) { return function(a, operand(b)); } \
  template <Number S> const Tensor& function##_(const Tensor& self, S b) {                      \
    return function##_(self, operand(b));                                                       \
  }
MZ_WITH_NUMBER(eq)
MZ_WITH_NUMBER(ne)
MZ_WITH_NUMBER(lt)
MZ_WITH_NUMBER(le)
MZ_WITH_NUMBER(gt)
MZ_WITH_NUMBER(ge)
#undef MZ_WITH_NUMBER

}  // namespace mezzo

namespace mezzo::op {

// Parsed by g++ and by nvcc.

/** Returns the traits of an op with bool results and `inputs` operands. */
constexpr OpTraits question(std::string_view name, Precision precision, std::string_view summary,
                            int inputs, bool in_place) {
  return {.name = name,
          .precision = precision,
          .summary = summary,
          .inputs = inputs,
          .differentiable = false,
          .in_place = in_place,
          .integers = Integers::keep,
          .result = ResultType::truth,
          .booleans = true};
}

/** Returns the traits of a comparison of two promoted operands. */
constexpr OpTraits comparison(std::string_view name, std::string_view summary) {
  return question(name, Precision::promote, summary, 2, true);
}

/** Returns the traits of a test of one operand. */
constexpr OpTraits test(std::string_view name, std::string_view summary) {
  return question(name, Precision::match, summary, 1, false);
}

/** Returns the traits of a logical operation. */
constexpr OpTraits logic(std::string_view name, std::string_view summary, int inputs = 2) {
  return question(name, Precision::match, summary, inputs, false);
}

/** Returns the traits of an operation on the bits of integers or bools. */
constexpr OpTraits bitwise(std::string_view name, std::string_view summary, int inputs = 2) {
  return {.name = name,
          .precision = Precision::match,
          .summary = summary,
          .inputs = inputs,
          .differentiable = false,
          .integers = Integers::only,
          .booleans = true};
}

struct BitwiseAnd {
  static constexpr OpTraits traits = bitwise("bitwise_and", "bits set in both");
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return a & b; }
};

/** The bits of integers inverted; for bools the public function calls LogicalNot. */
struct BitwiseNot {
  static constexpr OpTraits traits = bitwise("bitwise_not", "bits that are not set", 1);
  template <class V> MZ_HD static V forward(const V& x) { return ~x; }
};

struct BitwiseOr {
  static constexpr OpTraits traits = bitwise("bitwise_or", "bits set in either");
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return a | b; }
};

struct BitwiseXor {
  static constexpr OpTraits traits = bitwise("bitwise_xor", "bits that differ");
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return a ^ b; }
};

struct Eq {
  static constexpr OpTraits traits = comparison("eq", "a == b");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>(a == b);
  }
};

struct Ge {
  static constexpr OpTraits traits = comparison("ge", "a >= b");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>(a >= b);
  }
};

struct Gt {
  static constexpr OpTraits traits = comparison("gt", "a > b");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>(a > b);
  }
};

struct Isfinite {
  static constexpr OpTraits traits = test("isfinite", "neither infinite nor nan");
  template <class V> MZ_HD static V forward(const V& x) { return static_cast<V>(x - x == V(0)); }
};

struct Isinf {
  static constexpr OpTraits traits = test("isinf", "an infinity of either sign");
  template <class V> MZ_HD static V forward(const V& x) {
    return static_cast<V>((x == x) & (x - x != V(0)));
  }
};

struct Isnan {
  static constexpr OpTraits traits = test("isnan", "not a number");
  template <class V> MZ_HD static V forward(const V& x) { return static_cast<V>(x != x); }
};

struct Le {
  static constexpr OpTraits traits = comparison("le", "a <= b");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>(a <= b);
  }
};

struct LogicalAnd {
  static constexpr OpTraits traits = logic("logical_and", "both are nonzero");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>((a != V(0)) & (b != V(0)));
  }
};

struct LogicalNot {
  static constexpr OpTraits traits = logic("logical_not", "is zero", 1);
  template <class V> MZ_HD static V forward(const V& x) { return static_cast<V>(x == V(0)); }
};

struct LogicalOr {
  static constexpr OpTraits traits = logic("logical_or", "one is nonzero");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>((a != V(0)) | (b != V(0)));
  }
};

struct LogicalXor {
  static constexpr OpTraits traits = logic("logical_xor", "exactly one is nonzero");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>((a != V(0)) != (b != V(0)));
  }
};

struct Lt {
  static constexpr OpTraits traits = comparison("lt", "a < b");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>(a < b);
  }
};

struct Ne {
  static constexpr OpTraits traits = comparison("ne", "a != b");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return static_cast<V>(a != b);
  }
};

using CompareOps =
    type_list<BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, Eq, Ge, Gt, Isfinite, Isinf, Isnan, Le,
              LogicalAnd, LogicalNot, LogicalOr, LogicalXor, Lt, Ne>;

}  // namespace mezzo::op
