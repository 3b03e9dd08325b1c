// Shape rules of variance, norms, products and log-sum-exp.
#include "statistics.h"

#include <cmath>

#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

namespace {

OutSpecs floating_reduction(const Tensor& x, const ReduceAttrs& attrs, std::string_view op) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(op, {.what = "not defined for integers",
                          .got = str(x),
                          .expected = "a floating dtype",
                          .hint = "use x.to(f32)"});
  return {{reduced_shape(x.shape(), attrs), x.dtype()}};
}

}  // namespace

OutSpecs LogSumExp::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = is_floating(in[0].dtype()) ? in[0].dtype() : DType::f32;
  return {{reduced_shape(in[0].shape(), attrs), dtype}};
}

OutSpecs Prod::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = is_floating(in[0].dtype()) ? in[0].dtype() : DType::i64;
  return {{reduced_shape(in[0].shape(), attrs), dtype}};
}

OutSpecs ProdOfOthers::infer(Inputs in, const Attrs&) {
  return {{in[0].shape(), compute_dtype(in[0].dtype())}};
}

OutSpecs Std::infer(Inputs in, const Attrs& attrs) {
  return floating_reduction(in[0], attrs.reduce(), traits.name);
}

OutSpecs Var::infer(Inputs in, const Attrs& attrs) {
  return floating_reduction(in[0], attrs.reduce(), traits.name);
}

OutSpecs VectorNorm::infer(Inputs in, const Attrs& attrs) {
  if (std::isnan(attrs.p))
    fail<ValueError>(traits.name, {.what = "p is not a number", .got = "nan"});
  const bool needs_elements = attrs.p < 0 || std::isinf(attrs.p);
  if (needs_elements && reduced_count(in[0].shape(), attrs.reduce()) == 0)
    fail<ShapeError>(traits.name,
                     {.what = str("the norm with p = ", attrs.p, " of no elements is undefined"),
                      .got = str(in[0]),
                      .expected = "at least one element along the reduced dimensions"});
  return floating_reduction(in[0], attrs.reduce(), traits.name);
}

std::span<OpInfo* const> statistics_ops() { return infos_of(StatisticsOps{}); }

}  // namespace mezzo::op
