// Rows of the ops that look values up.
#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

const Rows search([] {
  add_row("searchsorted", [](Draw& d) {
    const Shape shape = d.short_shape(0, 3);
    Shape sought = shape;
    if (sought.rank() > 0 && d.flag()) sought[sought.rank() - 1] = d.below(5);
    if (d.chance(0.3)) sought = d.shape();
    const Tensor sorted = d.tensor(d.flag() ? Shape{d.below(6)} : shape, d.dtype());
    const Tensor values = d.tensor(sought, d.flag() ? sorted.dtype() : d.dtype());
    const SearchsortedOptions options{.right = d.flag(), .out_int32 = d.flag()};
    bool fits = sorted.dim() == 1 || (sorted.dim() > 0 && sorted.dim() == values.dim());
    for (int i = 0; fits && i < sorted.dim() - 1; ++i)
      fits = sorted.shape()[i] == values.shape()[i];
    return Trial{[=] { return list(searchsorted(sorted, values, options)); },
                 fits ? gives(sizes(values)) : refused()};
  });
  add_row("bucketize", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const Tensor boundaries = d.tensor(d.short_shape(0, 2), d.flag() ? x.dtype() : d.dtype());
    const BucketizeOptions options{.right = d.flag(), .out_int32 = d.flag()};
    const bool fits = boundaries.dim() == 1;
    return Trial{[=] { return list(bucketize(x, boundaries, options)); },
                 fits ? gives(sizes(x)) : refused()};
  });
  add_row("isin", [](Draw& d) {
    const Tensor x = d.maybe_huge(), list_of = d.tensor();
    const bool invert = d.flag();
    return Trial{[=] { return list(isin(x, list_of, {.invert = invert})); }, gives(sizes(x))};
  });
  add_row("bincount", [](Draw& d) {
    const Shape shape = d.short_shape(0, 2);
    const Tensor x = d.index(shape, 5), weights = d.optional(shape, d.dtype());
    const std::int64_t least = d.number(0, 9);
    const bool fits =
        x.dim() == 1 && least >= 0 && (!weights.defined() || weights.shape() == shape);
    return Trial{[=] { return list(bincount(x, {.weights = weights, .minlength = least})); },
                 fits ? gives({kAny}) : refused()};
  });
});

}  // namespace
