// The row that each index element selects, on the device.
#pragma once

#include "axes.h"
#include "host_rows.h"

namespace mezzo::gpu {

/** Names as a kernel argument. */
struct NamesHere {
  const void* data = nullptr;
  bool wide = false;
  std::int64_t size = 0, step = 1;
  Axes base = {};
  IndexErrorWord* bad = nullptr;

  NamesHere() = default;
  explicit NamesHere(const Names& names)
      : data(names.memory.raw_data()),
        wide(names.memory.dtype() == DType::i64),
        size(names.size),
        step(names.step),
        base(names.base),
        bad(names.bad) {}
  /** Returns the selected row, negative if the index is out of range. */
  __device__ std::int64_t row(std::int64_t at) const {
    const std::int64_t value = wide ? static_cast<const std::int64_t*>(data)[at]
                                    : static_cast<const std::int32_t*>(data)[at];
    if (value < 0 || value >= size) {
      note_bad(bad, at, value);
      return -1;
    }
    return place_of(base, at) + value * step;
  }
};

}  // namespace mezzo::gpu
