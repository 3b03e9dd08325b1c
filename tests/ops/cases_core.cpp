// Cases of the copying, viewing and summing ops.
#include <algorithm>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

std::vector<Array> identity(const std::vector<Array>& x) { return {x[0]}; }

const Registrar additions([] {
  add_case({.op = "clone", .call = CALL(x[0].clone()), .oracle = identity});
  add_case({.op = "to", .call = CALL(x[0].to(f64)), .oracle = identity});
  add_case({.op = "to",
            .variant = "narrowing",
            .call = CALL(x[0].to(f16).to(x[0].dtype())),
            .oracle =
                [](const std::vector<Array>& x) {
                  Array y = x[0];
                  for (double& v : y.values) v = static_cast<float>(Half(static_cast<float>(v)));
                  return std::vector<Array>{y};
                },
            .factor = 1e4,
            .gradients = false});
  add_case({.op = "fill",
            .call = CALL(x[0].clone().fill_(1.5)),
            .oracle = [](const std::vector<Array>& x) {
              return std::vector<Array>{
                  moved(Array{{1}, {1.5}}, x[0].shape, [](std::int64_t) { return 0; })};
            }});
  add_case({.op = "copy",
            .call = CALL(x[0].clone().copy_(x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{moved(x[1], x[0].shape, [&](std::int64_t i) {
                    return i % std::max<std::int64_t>(x[1].numel(), 1);
                  })};
                },
            .operands = {{}, {}},
            .shapes = {{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{5}, Shape{}}, {{0}, {0}}}});
  add_case({.op = "view",
            .call = CALL(x[0].view({2, 6})),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{{{2, 6}, x[0].values}};
                },
            .shapes = {{{3, 4}}, {{12}}, {{2, 2, 3}}},
            .exact_shapes_only = true});
  add_case({.op = "permute",
            .call = CALL(x[0].permute({2, 0, 1})),
            .oracle =
                [](const std::vector<Array>& x) {
                  const std::int64_t a = x[0].shape[0], b = x[0].shape[1], c = x[0].shape[2];
                  return std::vector<Array>{moved(x[0], {c, a, b}, [=](std::int64_t i) {
                    return (i / b % a * b + i % b) * c + i / (a * b);
                  })};
                },
            .shapes = {{{2, 3, 4}}, {{1, 5, 2}}, {{3, 1, 1}}}});
  add_case({.op = "expand",
            .call = CALL(x[0].expand({2, 3, 4})),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{moved(x[0], {2, 3, 4}, [&](std::int64_t i) {
                    return x[0].shape.rank() == 1 ? i % 4 : i / 4 % 3;
                  })};
                },
            .shapes = {{{4}}, {{3, 1}}}});
  add_case({.op = "slice",
            .call = CALL(x[0].slice(1, 1, -1, 2)),
            .oracle =
                [](const std::vector<Array>& x) {
                  const std::int64_t n = x[0].shape[1], kept = (n - 2 + 1) / 2;
                  return std::vector<Array>{moved(x[0], {x[0].shape[0], kept}, [=](std::int64_t i) {
                    return i / kept * n + 1 + i % kept * 2;
                  })};
                },
            .shapes = {{{3, 6}}, {{2, 7}}, {{1, 3}}}});
  add_case({.op = "select",
            .call = CALL(x[0].select(0, -1)),
            .oracle =
                [](const std::vector<Array>& x) {
                  const std::int64_t n = x[0].numel() / x[0].shape[0];
                  Shape shape = x[0].shape;
                  shape.erase(0);
                  return std::vector<Array>{moved(
                      x[0], shape, [&](std::int64_t i) { return (x[0].shape[0] - 1) * n + i; })};
                },
            .shapes = {{{3, 4}}, {{5}}, {{2, 2, 2}}}});
  add_case({.op = "as_strided",
            .call = CALL(x[0].as_strided({2, 2}, {1, 2}, 1)),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{{{2, 2}, {x[0][1], x[0][3], x[0][2], x[0][4]}}};
                },
            .shapes = {{{6}}},
            .second_order = false,
            .exact_shapes_only = true});
  for (const bool keepdim : {false, true})
    add_case({.op = "sum",
              .variant = keepdim ? "keepdim" : "middle",
              .call =
                  [keepdim](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{sum(x[0], {-2}, {.keepdim = keepdim})};
                  },
              .oracle =
                  [keepdim](const std::vector<Array>& x) {
                    const std::int64_t outer = x[0].shape[0], n = x[0].shape[1],
                                       inner = x[0].shape[2];
                    Array y{keepdim ? Shape{outer, 1, inner} : Shape{outer, inner},
                            std::vector<double>(static_cast<std::size_t>(outer * inner), 0.0)};
                    for (std::int64_t i = 0; i < x[0].numel(); ++i)
                      y.values[static_cast<std::size_t>(i / (n * inner) * inner + i % inner)] +=
                          x[0][i];
                    return std::vector<Array>{y};
                  },
              .shapes = {{{2, 3, 4}}, {{1, 5, 1}}, {{2, 0, 3}}, {{3, 1, 2}}}});
});

}  // namespace
