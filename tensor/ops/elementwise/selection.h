// Elementwise clamping and masking. pointwise.h says what elementwise functions have in common;
// ops.h explains the precision tags.
#pragma once

#include <optional>

#include "formula.h"
#include "number.h"

namespace mezzo {

/** Limits that are numbers, rounded to x's dtype; at least one is required. */
struct ClampOptions {
  std::optional<double> min = {};  // not given: no lower limit
  std::optional<double> max = {};  // not given: no upper limit
};

/** Returns x clamped to [min, max], or max everywhere if min > max; nan stays nan. Integers stay
 *  integers when the limits are integers.
 *  Precision: match.
 *  Gradient: 1 where min < x < max, else 0; as in PyTorch 2.15 it is 0 at the limits and at nan
 *  too.
 *  Errors: ValueError without a limit. */
MZ_API Tensor clamp(const Tensor& x, const ClampOptions& options);
/** Returns x clamped to limits that broadcast to x; an undefined tensor is no limit.
 *  Gradient: g goes to a limit where the result is that limit, else to x. Where x equals one limit,
 *  both get half of it; where x equals both limits, x gets all of it: as in PyTorch 2.15.
 *  Errors: ValueError without a limit; ShapeError; DtypeError when floating-point dtypes differ. */
MZ_API Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max);
/** Overwrites self with clamp(self, options) and returns it. */
MZ_API const Tensor& clamp_(const Tensor& self, const ClampOptions& options);
/** Overwrites self with clamp(self, min, max) and returns it. */
MZ_API const Tensor& clamp_(const Tensor& self, const Tensor& min, const Tensor& max);

/** Returns x with `value`, rounded to x's dtype, where the bool mask is true; mask and x broadcast.
 *  Unlike PyTorch, the value is rounded once, not to f32 first.
 *  Precision: match.
 *  Gradient: for x, 0 where masked, else 1; a 0-dim value gets the sum over the masked positions.
 *  Errors: ShapeError; DtypeError for other masks. */
MZ_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
/** Overwrites self with masked_fill(self, mask, value) and returns it. */
MZ_API const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value);
/** Does the same with a C++ number as the value. */
template <Number S> Tensor masked_fill(const Tensor& x, const Tensor& mask, S value) {
  return masked_fill(x, mask, operand(value));
}
/** Does the same in place with a C++ number as the value. */
template <Number S> const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, S value) {
  return masked_fill_(self, mask, operand(value));
}

/** What nan_to_num puts in place of each. */
struct NanToNumOptions {
  double nan = 0;                     // in place of elements that are no numbers
  std::optional<double> posinf = {};  // for infinity; not given: the largest number of x's dtype
  std::optional<double> neginf = {};  // for -infinity; not given: the least number of x's dtype
};

/** Returns x with numbers in place of nan and infinities, rounded to x's dtype; integers stay as
 *  they are.
 *  Precision: match.
 *  Gradient: 1 where x is finite, else 0. */
MZ_API Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options = {});
/** Overwrites self with nan_to_num(self, options) and returns it. */
MZ_API const Tensor& nan_to_num_(const Tensor& self, const NanToNumOptions& options = {});

/** Returns a where the bool condition is true, else b; all three broadcast.
 *  Precision: promote, for a and b; a number is rounded once to the dtype of the result.
 *  Gradient: g for each branch where it was chosen, exactly 0 elsewhere.
 *  Errors: ShapeError; DtypeError for other conditions. */
MZ_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/** Does the same with a number in place of b. */
template <Number S> Tensor where(const Tensor& condition, const Tensor& a, S b) {
  return where(condition, a, operand(b));
}
/** Does the same with a number in place of a. */
template <Number S> Tensor where(const Tensor& condition, S a, const Tensor& b) {
  return where(condition, operand(a), b);
}
/** Does the same with two numbers. */
template <Number S, Number T> Tensor where(const Tensor& condition, S a, T b) {
  return where(condition, operand(a), operand(b));
}

}  // namespace mezzo

namespace mezzo::op {

// Parsed by g++ and by nvcc.

struct Clamp {
  static constexpr OpTraits traits{
      .name = "clamp",
      .precision = Precision::match,
      .summary = "x limited to [low, high]",
      .inputs = 3,
      .needs = {input(0) | input(1) | input(2), input(0) | input(1) | input(2),
                input(0) | input(1) | input(2)},
      .in_place = true,
      .integers = Integers::keep};
  /** The share of the gradient that x gets where it equals a limit: 0 for a limit that is a number,
   *  1/2 for a tensor, 1 for an infinite limit that was not given. */
  struct Attrs {
    double at_low = 1, at_high = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& x, const V& low, const V& high, const Attrs&) {
    const V raised = select((x < low) | (low != low), low, x);
    return select((raised > high) | (high != high), high, raised);
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x, const V& low, const V& high, const Attrs& attrs) {
    const auto ties_low = (x == low) & (x < high), ties_high = (x == high) & (x > low);
    if constexpr (I == 0) {
      // Where both limits equal x, or x is nan, x gets the whole gradient unless a limit is a
      // number.
      const double at_both = attrs.at_low * attrs.at_high > 0 ? 1 : 0;
      const V tied =
          select(ties_low, V(num<V>(attrs.at_low) * g),
                 select(ties_high, V(num<V>(attrs.at_high) * g),
                        select(((x == low) & (x == high)) | (x != x), V(num<V>(at_both) * g), 0)));
      return select((x > low) & (x < high), g, tied);
    } else if constexpr (I == 1) {
      const V tied = select(ties_low, V(num<V>(1 - attrs.at_low) * g), 0);
      return select((x < low) & (low <= high), g, tied);
    } else {
      const V tied = select(ties_high, V(num<V>(1 - attrs.at_high) * g), 0);
      return select((x > high) | (low > high), g, tied);
    }
  }
};

struct MaskedFill {
  static constexpr OpTraits traits{.name = "masked_fill",
                                   .precision = Precision::match,
                                   .summary = "value where the mask is true, else x",
                                   .inputs = 3,
                                   .needs = {input(2), input(2), kNothing},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .mask = MaskOperand::last};
  struct Attrs {};
  static void check(Inputs in, const Attrs& attrs);
  template <class V>
  MZ_HD static V forward(const V& x, const V& value, const V& mask, const Attrs&) {
    return select(mask != V(0), value, x);
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V&, const V& mask, const Attrs&) {
    if constexpr (I == 0)
      return select(mask != 0, num<V>(0), g);
    else
      return select(mask != 0, g, 0);
  }
};

/** The elementwise part of dropout, for a mask that is already drawn. */
struct MaskedScale {
  static constexpr OpTraits traits{.name = "masked_scale",
                                   .precision = Precision::match,
                                   .summary = "x * scale where the mask is true, else 0",
                                   .inputs = 2,
                                   .needs = {input(1), kNothing},
                                   .in_place = true,
                                   .internal = true,
                                   .integers = Integers::reject,
                                   .mask = MaskOperand::last};
  struct Attrs {
    double scale = 1;
  };
  template <class V> MZ_HD static V forward(const V& x, const V& mask, const Attrs& attrs) {
    return select(mask != V(0), x * num<V>(attrs.scale), 0);
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V& mask, const Attrs& attrs) {
    return select(mask != 0, V(g * num<V>(attrs.scale)), 0);
  }
};

struct NanToNum {
  static constexpr OpTraits traits{.name = "nan_to_num",
                                   .precision = Precision::match,
                                   .summary = "numbers in place of nan and infinities",
                                   .needs = {input(0)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    double nan = 0, posinf = 0, neginf = 0;
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    if constexpr (std::is_integral_v<V>)
      return static_cast<void>(attrs), x;
    else
      return select(x != x, num<V>(attrs.nan),
                    select(x == INFINITY, num<V>(attrs.posinf),
                           select(x == -INFINITY, num<V>(attrs.neginf), x)));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs&) {
    return select((x < INFINITY) & (x > -INFINITY), g, 0);
  }
};

struct Where {
  static constexpr OpTraits traits{.name = "where",
                                   .precision = Precision::promote,
                                   .summary = "a where the condition is true, else b",
                                   .inputs = 3,
                                   .needs = {kNothing, input(0), input(0)},
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .mask = MaskOperand::first};
  template <class V> MZ_HD static V forward(const V& condition, const V& a, const V& b) {
    return select(condition != V(0), a, b);
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& condition, const V&, const V&) {
    if constexpr (I == 1)
      return select(condition != 0, g, 0);
    else
      return select(condition != 0, num<V>(0), g);
  }
};

using SelectionOps = type_list<Clamp, MaskedFill, MaskedScale, NanToNum, Where>;

}  // namespace mezzo::op
