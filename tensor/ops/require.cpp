#include "require.h"

#include "../text/text.h"

namespace mezzo {

namespace {

std::string texts_of_defined(Inputs in) {
  std::string text;
  for (const Tensor& x : in)
    if (x.defined()) text += (text.empty() ? "" : " and ") + str(x);
  return text;
}

/** Returns a hint naming the dtype to convert to: the narrowest floating dtype present, as a cast
 *  would choose. f64 operands must be converted explicitly. */
std::string dtype_hint(Inputs in) {
  DType narrowest = DType::f64;
  bool has_f64 = false, has_floating = false, has_others = false;
  for (const Tensor& x : in) {
    if (!x.defined()) continue;
    has_others = has_others || !is_floating(x.dtype());
    if (!is_floating(x.dtype())) continue;
    has_floating = true;
    has_f64 = has_f64 || x.dtype() == DType::f64;
    if (x.dtype() < narrowest) narrowest = x.dtype();
  }
  if (!has_floating) return "use x.to(f32)";
  if (has_others) return str("use x.to(", narrowest, ")");
  if (has_f64) return str("f64 is never cast automatically: use x.to(", narrowest, ")");
  return str("use x.to(", narrowest,
             "), or amp::autocast around the call; amp::initialize casts the inputs of the models "
             "that it is given, not those of their parts");
}

}  // namespace

void require_defined(std::string_view op, const Tensor& x) {
  if (!x.defined())
    fail<ValueError>(op, {.what = "operand 0 is undefined", .expected = "a tensor"});
}

namespace {

DType require_one_dtype(std::string_view op, Inputs in, bool takes_integers) {
  const Tensor* first = nullptr;
  for (const Tensor& x : in) {
    if (!x.defined()) continue;
    if (!is_floating(x.dtype()) && !(takes_integers && is_integer(x.dtype())))
      fail<DtypeError>(op, {.what = str("not defined for ", x.dtype()),
                            .got = texts_of_defined(in),
                            .expected = takes_integers ? "numbers" : "floating operands",
                            .hint = dtype_hint(in)});
    if (!first) first = &x;
    if (x.dtype() == first->dtype()) continue;
    fail<DtypeError>(op, {.what = "dtypes differ",
                          .got = texts_of_defined(in),
                          .expected = "one dtype",
                          .hint = is_floating(promote(x.dtype(), first->dtype()))
                                      ? dtype_hint(in)
                                      : str("use x.to(", promote(x.dtype(), first->dtype()), ")")});
  }
  return first->dtype();
}

}  // namespace

DType require_one_floating_dtype(std::string_view op, Inputs in) {
  return require_one_dtype(op, in, false);
}

DType require_one_number_dtype(std::string_view op, Inputs in) {
  return require_one_dtype(op, in, true);
}

void require_floating_operands(std::string_view op, Inputs in) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined())
      fail<ValueError>(op, {.what = str("operand ", i, " is undefined"), .expected = "a tensor"});
    if (!is_floating(in[i].dtype()))
      fail<DtypeError>(op, {.what = str("not defined for ", in[i].dtype()),
                            .got = str(in),
                            .expected = in.size() == 1 ? "a floating dtype" : "floating operands",
                            .hint = "use x.to(f32)"});
  }
}

}  // namespace mezzo
