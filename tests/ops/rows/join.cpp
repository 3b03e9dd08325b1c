// Rows of the ops that join tensors.
#include "../places.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

Oracle cat_along(int dim) {
  return [dim](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    shape[dim] = 0;
    for (const Array& a : x) shape[dim] += a.shape[dim];
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      Place place = place_of(shape, i);
      std::size_t part = 0;
      std::int64_t& along = place[static_cast<std::size_t>(dim)];
      while (along >= x[part].shape[dim]) along -= x[part++].shape[dim];
      y.values.push_back(x[part][position_of(x[part].shape, place)]);
    }
    return std::vector<Array>{y};
  };
}

Oracle stack_along(int dim) {
  return [dim](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    shape.insert(dim, static_cast<std::int64_t>(x.size()));
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      Place place = place_of(shape, i);
      const auto part = static_cast<std::size_t>(place[static_cast<std::size_t>(dim)]);
      place.erase(place.begin() + dim);
      y.values.push_back(x[part][position_of(x[part].shape, place)]);
    }
    return std::vector<Array>{y};
  };
}

/** Draws tensors whose sizes usually agree except along one dimension. */
std::vector<Tensor> joinable(FuzzDraw& d, bool equal) {
  std::vector<Tensor> tensors;
  const Shape shape = d.shape(1, 4);
  const std::int64_t at = d.below(shape.rank());
  for (std::int64_t i = d.below(4); i > 0; --i) {
    Shape own = shape;
    if (!equal) own[at] = d.number(0, 3);
    if (d.chance(0.1)) own = d.shape();
    bool usable = true;
    for (const std::int64_t size : own) usable = usable && size >= 0 && size < 1000;
    if (usable) tensors.push_back(d.tensor(own, d.dtype()));
  }
  return tensors;
}

bool skipped(const Tensor& x) { return x.dim() == 1 && x.shape()[0] == 0; }

/** The result of hstack (rank 1) or vstack (rank 2). */
Expected join_result(const std::vector<Tensor>& tensors, std::size_t rank) {
  std::optional<Sizes> shape;
  for (const Tensor& x : tensors) {
    Sizes own = sizes(x);
    while (own.size() < rank) own.insert(own.begin(), 1);
    const std::size_t at = rank == 2 || sizes(tensors[0]).size() < 2 ? 0 : 1;
    if (own.size() == 1 && own[0] == 0) {
      if (tensors.size() == 1) shape = own;
      continue;
    }
    if (at >= own.size()) return refused();
    if (!shape || shape == Sizes{0}) {
      shape = own;
      continue;
    }
    const Wide sum = shape->size() == own.size() ? (*shape)[at] + own[at] : 0;
    if (resized(*shape, static_cast<std::int64_t>(at), 0) !=
        resized(own, static_cast<std::int64_t>(at), 0))
      return refused();
    (*shape)[at] = sum;
  }
  if (!shape && !tensors.empty()) shape = Sizes{0};
  return gives(shape);
}

const Rows join_rows("index", [] {
  row("cat", CALL(cat(x, dim), std::int64_t dim))
      .test({.oracle = cat_along(1),
             .operands = {{}, {}, {}},
             .shapes = {{{2, 3}, {2, 1}, {2, 4}},
                        {{2, 3, 5}, {2, 0, 5}, {2, 2, 5}},
                        {{0, 3}, {0, 1}, {0, 2}}}},
            1)
      .test({.variant = "along the first dimension, wide beside narrow",
             .oracle = cat_along(0),
             .operands = {{}, {.parameter_like = true}},
             .shapes = {{{5}, {3}}, {{1}, {70}}}},
            -1)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::vector<Tensor> tensors = joinable(d, false);
        const std::int64_t dim = d.number(-2, 2);
        std::optional<Sizes> shape;
        bool fits = !tensors.empty();
        for (const Tensor& x : tensors) {
          if (x.dim() == 0) fits = false;
          if (skipped(x) || !fits) continue;
          const auto at = resolved(dim, x.shape().size());
          if (!at) {
            fits = false;
          } else if (!shape) {
            shape = sizes(x);
          } else {
            const Wide sum = (*shape)[std::min(*at, shape->size() - 1)] + sizes(x)[*at];
            fits = resized(*shape, dim, 0) == resized(sizes(x), dim, 0);
            shape = fits ? resized(*shape, dim, sum) : shape;
          }
        }
        if (fits && !shape && resolved(dim, 1)) shape = Sizes{0};
        return Trial{call(tensors, dim), fits ? gives(shape) : refused()};
      })
      .golden({"", "torch.cat((x0, x1, x2), 1)", "real(2, 3), real(2, 1), real(2, 2)"}, 1);
  row("cat", CALL(cat({x[0], x[0]}, 1))).smoke(smoke_rows("cat", {f32}, smoke::Expected::same));
  row("stack", CALL(stack(x, dim), std::int64_t dim))
      .test({.oracle = stack_along(1),
             .operands = {{}, {}},
             .shapes = {{{3}, {3}}, {{2, 3}, {2, 3}}, {{0}, {0}}}},
            1)
      .test({.variant = "of 0-dim tensors",
             .call = CALL(stack({x[0], x[1], x[0]}, -1)),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{{{3}, {x[0][0], x[1][0], x[0][0]}}};
                 },
             .operands = {{}, {}},
             .shapes = {{Shape{}, Shape{}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::vector<Tensor> tensors = joinable(d, true);
        const std::int64_t dim = d.number(-2, 2);
        bool fits = !tensors.empty();
        for (const Tensor& x : tensors) fits = fits && x.shape() == tensors[0].shape();
        Expected expected = refused();
        if (fits)
          if (const auto at = resolved(dim, tensors[0].shape().size() + 1)) {
            Sizes shape = sizes(tensors[0]);
            shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at),
                         static_cast<Wide>(tensors.size()));
            expected = gives(shape);
          }
        return Trial{call(tensors, dim), expected};
      })
      .golden({"", "torch.stack((x0, x1), 1)", "real(2, 3), real(2, 3)"}, 1);
});

const Rows stack_rows("space", [] {
  row("hstack", CALL(hstack(x)))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return cat_along(x[0].shape.rank() == 1 ? 0 : 1)(x);
                 },
             .operands = {{}, {}},
             .shapes = {{{3}, {2}}, {{2, 3}, {2, 1}}, {{2, 0, 2}, {2, 2, 2}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::vector<Tensor> tensors = joinable(d, false);
        return Trial{call(tensors), join_result(tensors, 1)};
      })
      .golden({"", "torch.hstack((x0, x1))", "real(2, 3), real(2, 1)"})
      .golden({"vectors", "torch.hstack((x0, x1))", "real(3), real(2)"});
  row("vstack", CALL(vstack(x)))
      .test({.oracle = cat_along(0),
             .operands = {{}, {}},
             .shapes = {{{2, 3}, {1, 3}}, {{0, 3}, {2, 3}}, {{1, 2, 2}, {2, 2, 2}}}})
      .test({.variant = "of vectors",
             .oracle = stack_along(0),
             .operands = {{}, {}},
             .shapes = {{{3}, {3}}, {{0}, {0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::vector<Tensor> tensors = joinable(d, false);
        return Trial{call(tensors), join_result(tensors, 2)};
      })
      .golden({"", "torch.vstack((x0, x1))", "real(3), real(2, 3)"});
});

}  // namespace
