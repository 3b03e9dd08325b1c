// Batch: samples joined along dimension 0.
#pragma once

#include <concepts>
#include <cstdint>
#include <tuple>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** A batch of samples: inputs x and targets y, of equal size along dimension 0. */
struct Batch {
  /** Inputs. */
  Tensor x, y;  // targets; undefined for a data set without
  /** Returns the number of samples; the last batch of an epoch may have fewer, and with
   *  BatchOptions::exact none. */
  std::int64_t size() const { return x.size(0); }
};
/** Returns the tensors that casts of module arguments apply to. */
template <std::same_as<Batch> T> auto fields(T& b) { return std::tie(b.x, b.y); }

namespace data {
using mezzo::Batch;
}  // namespace data
}  // namespace mezzo
