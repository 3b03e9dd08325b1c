// Rows of the ops that order elements.
#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** Returns x's shape with dim reduced to `size` elements, or removed. */
Expected along(const Tensor& x, std::int64_t dim, bool keepdim) {
  return gives_both(reduced(sizes(x), {dim}, keepdim));
}

const Rows order([] {
  add_row("sort", [](Draw& d) {
    const Tensor x = d.tensor();
    const SortOptions options{.dim = d.dim(x.dim()), .descending = d.flag()};
    return Trial{[=] { return list(sort(x, options)); },
                 resolved(options.dim, x.shape().size()) ? gives_both(sizes(x)) : refused()};
  });
  add_row("argsort", [](Draw& d) {
    const Tensor x = d.tensor();
    const SortOptions options{.dim = d.dim(x.dim()), .descending = d.flag()};
    return Trial{[=] { return list(argsort(x, options)); },
                 resolved(options.dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
  add_row("topk", [](Draw& d) {
    const Tensor x = d.tensor();
    const TopkOptions options{.dim = d.dim(x.dim()), .largest = d.flag(), .sorted = d.flag()};
    const std::int64_t k = d.number(0, 4);
    Expected expected = refused();
    if (resolved(options.dim, x.shape().size()) && k >= 0 && k <= length_along(x, options.dim)) {
      expected = gives_both(resized(sizes(x), options.dim, k));
      if (x.dim() == 0 && k == 0) expected = gives_both(Sizes{0});
    }
    return Trial{[=] { return list(topk(x, k, options)); }, expected};
  });
  add_row("kthvalue", [](Draw& d) {
    const Tensor x = d.tensor();
    const KthvalueOptions options{.dim = d.dim(x.dim()), .keepdim = d.flag()};
    const std::int64_t k = d.number(0, 4);
    const bool fits =
        resolved(options.dim, x.shape().size()) && k >= 1 && k <= length_along(x, options.dim);
    return Trial{[=] { return list(kthvalue(x, k, options)); },
                 fits ? along(x, options.dim, options.keepdim) : refused()};
  });
  add_row("quantile", [](Draw& d) {
    const Tensor x = d.floats(0, 3);
    QuantileOptions options{.keepdim = d.flag()};
    if (d.flag()) options.dim = d.dim(x.dim());
    options.interpolation = static_cast<QuantileInterpolation>(d.below(5));
    Expected expected = gives(Sizes(options.keepdim ? x.shape().size() : 0, 1));
    if (options.dim) expected = gives(reduced(sizes(x), {*options.dim}, options.keepdim));
    if (d.flag()) {
      const double q = d.real(0, 1);
      return Trial{[=] { return list(quantile(x, q, options)); },
                   q >= 0 && q <= 1 ? expected : refused()};
    }
    const std::int64_t count = d.below(4);
    if (expected) (*expected)[0].insert((*expected)[0].begin(), count);
    return Trial{[=] {
                   const Tensor shares = full({count}, 0.25, {.device = x.device()});
                   return list(quantile(x, shares, options));
                 },
                 expected};
  });
  add_row("median", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] { return list(median(x)); }, gives(Sizes{})};
  });
  add_row("median", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const bool keepdim = d.flag();
    return Trial{[=] { return list(median(x, dim, {keepdim})); }, along(x, dim, keepdim)};
  });
});

}  // namespace
