// Rows of the ops with indices and masks.
#include <algorithm>

#include "../support/device.h"
#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** Draws a shape of x's rank that exceeds x's sizes only along dim. */
Shape index_shape(Draw& d, const Tensor& x, std::int64_t dim) {
  if (d.chance(0.1)) return d.shape();
  Shape shape = x.shape();
  for (std::int64_t& size : shape)
    if (size < 1000 && d.flag()) size = std::min<std::int64_t>(size, 1 + d.below(3));
  if (const auto at = resolved(dim, shape.size()); at && shape.rank() > 0)
    shape[static_cast<std::int64_t>(*at)] = d.below(5);
  return shape;
}

template <class F> void add_rows_by_index(const char* op, F) {
  add_row(op, [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const bool in_place = d.flag();
    const std::int64_t rows = d.below(4);
    const Tensor index = d.index(d.chance(0.1) ? d.shape() : Shape{rows}, length_along(x, dim));
    Shape source = x.shape();
    if (const auto at = resolved(dim, source.size()); at && source.rank() > 0)
      source[static_cast<std::int64_t>(*at)] = rows;
    const Tensor src = d.chance(0.1) ? d.tensor() : d.tensor(source, x.dtype());
    return Trial{[=] { return list(F{}(in_place ? x.detach() : x, dim, index, src, in_place)); },
                 resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
}

constexpr auto kIndexAdd = [](const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor& src,
                              bool here) {
  return here ? index_add_(x, dim, i, src) : index_add(x, dim, i, src);
};
constexpr auto kIndexCopy = [](const Tensor& x, std::int64_t dim, const Tensor& i,
                               const Tensor& src, bool here) {
  return here ? index_copy_(x, dim, i, src) : index_copy(x, dim, i, src);
};
constexpr auto kIndexFill = [](const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor&,
                               bool here) {
  return here ? index_fill_(x, dim, i, 2.5) : index_fill(x, dim, i, 2.5);
};
constexpr auto kScatter = [](const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor& src,
                             bool here) {
  return here ? scatter_(x, dim, i, src) : scatter(x, dim, i, src);
};
constexpr auto kScatterAdd = [](const Tensor& x, std::int64_t dim, const Tensor& i,
                                const Tensor& src, bool here) {
  return here ? scatter_add_(x, dim, i, src) : scatter_add(x, dim, i, src);
};

template <class F> void add_scatter(const char* op, F) {
  add_row(op, [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Shape shape = index_shape(d, x, dim);
    const bool in_place = d.flag();
    const Tensor index = d.index(shape, length_along(x, dim));
    const Tensor src = d.tensor(d.chance(0.1) ? d.shape() : shape, x.dtype());
    return Trial{[=] { return list(F{}(in_place ? x.detach() : x, dim, index, src, in_place)); },
                 resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
}

/** Draws index tensors, masks and undefined indices for the dimensions of x. */
std::vector<Tensor> some_indices(Draw& d, const Tensor& x) {
  std::vector<Tensor> indices;
  const Shape shape = d.shape(0, 2);
  for (int i = 0; i < x.dim() && d.chance(0.7); ++i) {
    const double kind = d.real(0, 1);
    // A device counts the elements of an expanded mask, up to 2^53 of them, without the copy that
    // would run out of memory.
    const bool is_countable = x.shape()[i] < 100000 || testing::test_device() == cpu;
    if (kind < 0.2)
      indices.push_back({});
    else if (kind < 0.4 && is_countable)
      indices.push_back(d.mask(d.chance(0.1) ? d.shape() : Shape{x.shape()[i]}));
    else
      indices.push_back(d.index(d.like(shape), x.shape()[i]));
  }
  return indices;
}

const Rows by_index([] {
  add_rows_by_index("index_add", kIndexAdd);
  add_rows_by_index("index_copy", kIndexCopy);
  add_rows_by_index("index_fill", kIndexFill);
  add_scatter("scatter", kScatter);
  add_scatter("scatter_add", kScatterAdd);
  add_row("gather", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Tensor index = d.index(index_shape(d, x, dim), length_along(x, dim));
    return Trial{[=] { return list(gather(x, dim, index)); },
                 resolved(dim, x.shape().size()) ? gives(sizes(index)) : refused()};
  });
  add_row("take_along_dim", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Tensor index = d.index(index_shape(d, x, dim), length_along(x, dim));
    Expected expected = refused();
    if (resolved(dim, x.shape().size()) && x.dim() == index.dim()) {
      const auto a = resized(sizes(x), dim, 1), b = resized(sizes(index), dim, 1);
      if (const auto both = broadcast(a, *b))
        expected = gives(resized(*both, dim, length_along(index, dim)));
    }
    return Trial{[=] { return list(take_along_dim(x, index, dim)); }, expected};
  });
  add_row("index_select", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Tensor index =
        d.index(d.chance(0.1) ? d.shape() : Shape{d.below(4)}, length_along(x, dim));
    return Trial{[=] { return list(index_select(x, dim, index)); },
                 index.dim() <= 1 ? gives(resized(sizes(x), dim, count(sizes(index)))) : refused()};
  });
  add_row("embedding", [](Draw& d) {
    const Tensor weight = d.floats(d.chance(0.9) ? d.shape(2, 2) : d.shape());
    const Tensor index = d.index(d.shape(0, 3), weight.dim() > 0 ? weight.shape()[0] : 1);
    const std::int64_t padding = d.number(-2, 3);
    const EmbeddingOptions options{.padding_idx = d.flag() ? std::optional(padding) : std::nullopt,
                                   .scale_grad_by_freq = d.flag()};
    Sizes shape = sizes(index);
    if (weight.dim() == 2) shape.push_back(weight.shape()[1]);
    return Trial{[=] { return list(embedding(index, weight, options)); },
                 weight.dim() == 2 ? gives(shape) : refused()};
  });
  add_row("index", [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4), d.dtype());
    const std::vector<Tensor> indices = some_indices(d, x);
    // With masks the sizes depend on values; other tests of the op check the number of dimensions.
    return Trial{[=] {
                   index(x, indices);
                   return std::vector<Tensor>{};
                 },
                 std::vector<Sizes>{}};
  });
  add_row("index_put", [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4), d.dtype());
    const std::vector<Tensor> indices = some_indices(d, x);
    const Tensor values = d.tensor(d.shape(0, 1), x.dtype());
    const IndexPutOptions options{d.flag()};
    const bool in_place = d.flag();
    return Trial{[=] {
                   return list(in_place ? index_put_(x.detach(), indices, values, options)
                                        : index_put(x, indices, values, options));
                 },
                 gives(sizes(x))};
  });
  add_row("masked_scatter", [](Draw& d) {
    const Tensor x = d.tensor(), m = d.mask(d.like(x.shape())),
                 source = d.tensor(d.shape(), x.dtype());
    return Trial{[=] { return list(masked_scatter(x, m, source)); },
                 gives(broadcast(sizes(x), sizes(m)))};
  });
  add_row("masked_select", [](Draw& d) {
    const Tensor x = d.tensor(), m = d.mask(d.like(x.shape()));
    return Trial{[=] { return list(masked_select(x, m)); },
                 broadcast(sizes(x), sizes(m)) ? gives(Sizes{kAny}) : refused()};
  });
  add_row("nonzero", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] { return list(nonzero(x)); }, gives(Sizes{kAny, x.dim()})};
  });
  add_row("unique", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] {
                   const UniqueResult r =
                       unique(x, {.return_inverse = true, .return_counts = true});
                   return std::vector<Tensor>{r.values, r.inverse, r.counts};
                 },
                 std::vector<Sizes>{{kAny}, sizes(x), {kAny}}};
  });
});

}  // namespace
