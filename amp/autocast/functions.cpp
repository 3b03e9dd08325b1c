#include "functions.h"

#include "casting.h"

namespace mezzo::amp::detail {

namespace {

std::string_view name_of(Precision tag) {
  if (tag == Precision::low) return "half_function";
  return tag == Precision::f32 ? "float_function" : "promote_function";
}

}  // namespace

ArgumentCasts::ArgumentCasts(Precision tag) : tag_(tag) {
  const CastState& state = ThreadCasts::here().state();
  active_ = state.active;
  if (tag == Precision::low) target_ = state.low;
  if (tag == Precision::f32) target_ = f32;
}

void ArgumentCasts::note(const Tensor& x) {
  if (tag_ != Precision::promote || !x.defined() || !is_floating(x.dtype())) return;
  target_ = target_ ? promote(*target_, x.dtype()) : x.dtype();
}

Tensor ArgumentCasts::cast(const Tensor& x) const {
  if (!target_) return x;
  return cast_eligible(x, *target_, ThreadCasts::here().state(), {name_of(tag_), name(tag_)});
}

}  // namespace mezzo::amp::detail
