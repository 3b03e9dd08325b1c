// Elementwise comparisons, tests, logic and bit operations. Results are bool, or integers for bit
// operations; none has a gradient. Parsed by g++ and by nvcc.
#pragma once

#include "formula.h"

namespace mezzo::op {

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
