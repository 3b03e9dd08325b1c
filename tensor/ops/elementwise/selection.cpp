#include "selection.h"

#include <cmath>
#include <limits>

#include "../../core/checked_size.h"
#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"
#include "../../text/text.h"
#include "common_dtype.h"

namespace mezzo {

namespace {

/** Returns a limit as operand; for an absent limit the end of x's range, which has no effect. */
Tensor limit(const Tensor& x, const Tensor& given, bool lower) {
  if (given.defined())
    return given.impl()->is_scalar ? in_common_dtype(given, x) : rounded_once(given, x);
  if (is_floating(x.dtype())) return operand(lower ? -HUGE_VAL : HUGE_VAL);
  using Range = std::numeric_limits<std::int64_t>;
  return operand(lower ? Range::min() : Range::max());
}

/** Returns a number as operand. Whole numbers become integers, so that integer tensors stay
 *  integers. */
Tensor number(const std::optional<double>& value) {
  if (!value) return {};
  return fits_i64(*value) ? operand(static_cast<std::int64_t>(*value)) : operand(*value);
}

void require_limit(const Tensor& min, const Tensor& max) {
  if (!min.defined() && !max.defined())
    fail<ValueError>("clamp", {.what = "no limit is given", .expected = "min, max or both"});
}

/** Returns `value` in the dtype that masked_fill uses. */
Tensor in_dtype_of(const Tensor& x, const Tensor& value) {
  const bool to_integer = is_floating(value.dtype()) && !is_floating(x.dtype());
  return to_integer ? value.to(x.dtype()) : rounded_once(value, x);
}

/** Returns the part of the gradient that x gets where it equals the limit. */
double share_at(const Tensor& limit) {
  if (!limit.defined()) return 1;
  return limit.impl()->is_scalar ? 0 : 0.5;
}

/** Returns the largest finite number of a floating dtype. */
double largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::bf16) return 0x1.fep127;
  return dtype == DType::f32 ? std::numeric_limits<float>::max()
                             : std::numeric_limits<double>::max();
}

op::NanToNum::Attrs replacements(const Tensor& x, const NanToNumOptions& options) {
  const double largest = x.defined() ? largest_of(x.dtype()) : 0;
  return {in_dtype_of(x, options.nan), in_dtype_of(x, options.posinf.value_or(largest)),
          in_dtype_of(x, options.neginf.value_or(-largest))};
}

op::Clamp::Attrs shares(const Tensor& min, const Tensor& max) {
  return {share_at(min), share_at(max)};
}

}  // namespace

Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max) {
  require_limit(min, max);
  return apply_with<op::Clamp>(shares(min, max), x, limit(x, min, true), limit(x, max, false));
}
Tensor clamp(const Tensor& x, const ClampOptions& options) {
  return clamp(x, number(options.min), number(options.max));
}
const Tensor& clamp_(const Tensor& self, const Tensor& min, const Tensor& max) {
  require_limit(min, max);
  return apply_in_place<op::Clamp>(shares(min, max), self, limit(self, min, true),
                                   limit(self, max, false));
}
const Tensor& clamp_(const Tensor& self, const ClampOptions& options) {
  return clamp_(self, number(options.min), number(options.max));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  return apply<op::MaskedFill>(x, in_dtype_of(x, value), mask);
}
const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value) {
  return apply_in_place<op::MaskedFill>({}, self, in_dtype_of(self, value), mask);
}

Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options) {
  return apply_with<op::NanToNum>(replacements(x, options), x);
}
const Tensor& nan_to_num_(const Tensor& self, const NanToNumOptions& options) {
  return apply_in_place<op::NanToNum>(replacements(self, options), self);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply<op::Where>(condition, rounded_once(a, b), rounded_once(b, a));
}

}  // namespace mezzo
