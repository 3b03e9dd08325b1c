// drawn(): the numbers that layers.py and training.py compute in the same way.
#pragma once

#include <mezzo.h>

#include <vector>

namespace golden {

/** Returns the k-th tensor of a case, as drawn() of layers.py does. */
inline mezzo::Tensor drawn(std::size_t k, const mezzo::Shape& shape, mezzo::DType dtype) {
  using namespace mezzo;
  std::vector<double> values;
  const std::int64_t start = (static_cast<std::int64_t>(k) + 1) * 104729;
  const std::int64_t count = checked_numel(shape, "drawn");
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 7919 + start) % 2003) / 1001.5 - 1);
  return tensor(values, shape, {.dtype = dtype});
}

}  // namespace golden
