// Argument checks of single elementwise ops.
#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/elementwise.h"
#include "../../text/text.h"

namespace mezzo::op {

namespace {

/** Checks that a factor of integer operands is an integer: 0.5 or 1e30 has no integer value. */
void check_factor(Inputs in, const OpTraits& traits, const char* attribute, double value) {
  if (fits_i64(value)) return;
  for (const Tensor& x : in)
    if (is_floating(x.dtype())) return;
  fail<ValueError>(traits.name, {.what = str(attribute, " is not an integer, but the operands are"),
                                 .got = str(attribute, " ", value, " for ", str(in)),
                                 .expected = "an integer of 64 bits",
                                 .hint = "use x.to(f32)"});
}

}  // namespace

void Add::check(Inputs in, const Attrs& attrs) {
  check_factor(in, traits, "alpha", attrs.alpha);
  if (promoted_dtype(in) == DType::boolean && attrs.alpha != 0 && attrs.alpha != 1)
    fail<ValueError>(traits.name, {.what = "alpha is not a bool, but the operands are",
                                   .got = str("alpha ", attrs.alpha, " for ", str(in)),
                                   .expected = "0 or 1"});
}

void Addcmul::check(Inputs in, const Attrs& attrs) {
  check_factor(in, traits, "value", attrs.value);
}

void Celu::check(Inputs, const Attrs& attrs) {
  if (attrs.alpha == 0)
    fail<ValueError>(traits.name,
                     {.what = "alpha must not be 0", .got = "0", .expected = "any other number"});
}

void Clamp::check(Inputs in, const Attrs&) {
  const Tensor* first = nullptr;
  for (const Tensor& x : in) {
    if (x.dim() == 0 || !is_floating(x.dtype())) continue;
    if (first && x.dtype() != first->dtype())
      fail<DtypeError>(traits.name, {.what = "the bounds' dtype is not the tensor's",
                                     .got = str(in),
                                     .expected = "one floating dtype",
                                     .hint = "use x.to(dtype)"});
    if (!first) first = &x;
  }
}

void Hardtanh::check(Inputs, const Attrs& attrs) {
  if (!(attrs.low <= attrs.high))
    fail<ValueError>(traits.name, {.what = "the lower limit is above the upper one",
                                   .got = str("low ", attrs.low, ", high ", attrs.high),
                                   .expected = "low <= high"});
}

void MaskedFill::check(Inputs in, const Attrs&) {
  if (in[1].dim() != 0)
    fail<ShapeError>(traits.name, {.what = "the value must be a single number",
                                   .got = str(in),
                                   .expected = "a 0-dim value",
                                   .hint = "use where(mask, value, x)"});
}

void Rsub::check(Inputs in, const Attrs& attrs) { check_factor(in, traits, "alpha", attrs.alpha); }

void Softplus::check(Inputs, const Attrs& attrs) {
  if (attrs.beta == 0)
    fail<ValueError>(traits.name,
                     {.what = "beta must not be 0", .got = "0", .expected = "any other number"});
}

void Softshrink::check(Inputs, const Attrs& attrs) {
  if (!(attrs.lambda >= 0))
    fail<ValueError>(
        traits.name,
        {.what = "lambda is negative", .got = str(attrs.lambda), .expected = "lambda >= 0"});
}

void Sub::check(Inputs in, const Attrs& attrs) { check_factor(in, traits, "alpha", attrs.alpha); }

}  // namespace mezzo::op
