// Rows of the ops that copy, convert and fill.
#include <algorithm>

#include "../row.h"

using namespace rows;
using namespace mezzo;

namespace {

std::vector<Array> identity(const std::vector<Array>& x) { return {x[0]}; }

const Rows copy_rows("index", [] {
  row("clone", CALL(x[0].clone()))
      .test({.oracle = identity})
      .fuzz(unary)
      .golden({"", "torch.clone", "real(3, 4)"});
  row("to", CALL(x[0].to(dtype), DType dtype))
      .test({.oracle = identity}, f64)
      .test({.variant = "narrowing",
             .call = CALL(x[0].to(f16).to(x[0].dtype())),
             .oracle =
                 [](const std::vector<Array>& x) {
                   Array y = x[0];
                   for (double& v : y.values) v = static_cast<float>(Half(static_cast<float>(v)));
                   return std::vector<Array>{y};
                 },
             .factor = 1e4,
             .gradients = false},
            f16)
      .fuzz(unary, [](FuzzDraw& d) { return d.dtype(); })
      .golden({"", "x0.half()", "real(3, 4)"}, f16);
  row("fill", CALL(x[0].clone().fill_(value), double value))
      .in_place(CALL(x[0].fill_(value), double value))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{
                       moved(Array{{1}, {1.5}}, x[0].shape, [](std::int64_t) { return 0; })};
                 }},
            1.5)
      .fuzz(unary, [](FuzzDraw& d) { return d.real(); })
      .golden_in_place({"", "(x0 * 1).fill_(2)", "real(3, 4)"}, 2);
  row("copy", CALL(x[0].clone().copy_(x[1])))
      .in_place(CALL(x[0].copy_(x[1])))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{moved(x[1], x[0].shape, [&](std::int64_t i) {
                     return i % std::max<std::int64_t>(x[1].numel(), 1);
                   })};
                 },
             .operands = {{}, {}},
             .shapes = {{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{5}, Shape{}}, {{0}, {0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor to = d.maybe_huge(), from = d.tensor(d.like(to.shape()), d.dtype());
        return Trial{call({to, from}), broadcast_result({to, from}, true)};
      });
  row("copy", CALL(zeros({2, 3}, {.dtype = x[0].dtype()}).copy_(x[0])))
      .golden({"", "torch.zeros(2, 3, dtype=x0.dtype).copy_(x0)", "real(3)"});
});

}  // namespace
