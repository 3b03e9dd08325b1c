#include "last_write.h"

#include "../create.h"
#include "../elementwise/operators.h"
#include "index.h"
#include "overwrite.h"

namespace mezzo {

Tensor without_overwritten(const Tensor& g, const Tensor& index, int dim, std::int64_t places) {
  const std::int64_t n = index.numel();
  if (n <= 1) return g;
  const TensorOptions integers{.dtype = DType::i64, .device = g.device()};
  const Tensor flat = index.reshape({n}), order = arange(static_cast<double>(n), integers);
  const Tensor last = index_copy(zeros({places}, integers), 0, flat, order);
  Shape shape = index.shape();
  while (shape.rank() < g.dim() - dim) shape.push_back(1);
  const Tensor overwritten = index_select(last, 0, flat) != order;
  return masked_fill(g, overwritten.view(shape), 0.0);
}

}  // namespace mezzo
