// Golden calls: indexing, scattering, joining, views, conversion.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

Tensor places(const std::vector<double>& values) { return tensor(values, {.dtype = i64}); }

void add_indexing() {
  GOLDEN("gather", gather(x[0], 1, x[1]));
  GOLDEN("gather/first dimension", gather(x[0], 0, x[1]));
  GOLDEN("take_along_dim", take_along_dim(x[0], x[1], 1));
  GOLDEN("take_along_dim/flat", take_along_dim(x[0], x[1]));
  GOLDEN("searchsorted", searchsorted(x[0], x[1]));
  GOLDEN("searchsorted/right", searchsorted(x[0], x[1], {.right = true}));
  GOLDEN("searchsorted/sorter", searchsorted(x[0], x[1], {.sorter = argsort(x[0])}));
  GOLDEN("searchsorted/i32", searchsorted(x[0], x[1], {.out_int32 = true}));
  GOLDEN("bucketize", bucketize(x[0], x[1]));
  GOLDEN("bucketize/right", bucketize(x[0], x[1], {.right = true}));
  GOLDEN("isin", isin(x[0], x[1]));
  GOLDEN("isin/inverted", isin(x[0], x[1], {.invert = true}));
  GOLDEN("bincount", bincount(x[0]));
  GOLDEN("bincount/weights", bincount(x[0], {.weights = x[1], .minlength = 12}));
  GOLDEN("scatter", scatter(x[0], 1, x[1], x[2]));
  GOLDEN("scatter/number", scatter(x[0], 1, x[1], 2.5));
  GOLDEN("scatter_add", scatter_add(x[0], 1, x[1], x[2]));
  GOLDEN_IN_PLACE("scatter_add/in place", scatter_add_(self, 0, x[1], x[2]));
  GOLDEN("index_add", index_add(x[0], 1, x[1], x[2], {.alpha = 0.5}));
  GOLDEN("index_select", index_select(x[0], 1, x[1]));
  GOLDEN("index", index(x[0], {x[1], x[2]}));
  GOLDEN("index/hole", index(x[0], {Tensor{}, x[1]}));
  GOLDEN("index/mask", index(x[0], {x[1]}));
  GOLDEN("index_put", index_put(x[0], {places({0, 2}), places({1, 3})}, x[1]));
  GOLDEN("index_put/accumulate", index_put(x[0], {x[1]}, x[2], {.accumulate = true}));
  GOLDEN("masked_select", masked_select(x[0], x[1]));
  GOLDEN("nonzero", nonzero(x[0]));
  GOLDEN("embedding", embedding(x[0], x[1]));
  GOLDEN("embedding/padding, by frequency",
         embedding(x[0], x[1], {.padding_idx = 1, .scale_grad_by_freq = true}));
}

void add_views() {
  GOLDEN("cat", cat(x, 1));
  GOLDEN("stack", stack(x, 1));
  GOLDEN("view", x[0].view({4, -1}));
  GOLDEN("permute", x[0].permute({2, 0, 1}));
  GOLDEN("expand", x[0].expand({2, 3, 4}));
  GOLDEN("slice", x[0].slice(1, 1, 6, 2));
  GOLDEN("select", x[0].select(1, -1));
  GOLDEN("as_strided", x[0].as_strided({2, 3}, {1, 2}, 1));
  GOLDEN("to", x[0].to(f16));
  GOLDEN("clone", x[0].clone());
  GOLDEN("copy", [&] {
    const Tensor self = zeros({2, 3}, {.dtype = x[0].dtype()});
    return Tensor(self.copy_(x[0]));
  }());
  GOLDEN_IN_PLACE("fill", self.fill_(2));
}

const Registrar additions([] {
  add_indexing();
  add_views();
});

}  // namespace
