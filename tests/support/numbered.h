// numbered(): a data set whose samples can be told apart.
#pragma once

#include "../../nn/data/dataset.h"
#include "../../tensor/ops/create.h"

/** Sample i is (i, 10 i) with target i. */
inline mezzo::data::Dataset numbered(std::int64_t n) {
  using namespace mezzo;
  const Tensor x = empty({n, 2}), y = empty({n}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i) {
    x.data<float>()[2 * i] = static_cast<float>(i);
    x.data<float>()[2 * i + 1] = static_cast<float>(10 * i);
    y.data<std::int64_t>()[i] = i;
  }
  return data::Dataset(x, y);
}
