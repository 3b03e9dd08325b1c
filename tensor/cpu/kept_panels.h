// kept_panels: packed copies of a weight that later products use instead of packing it again.
#pragma once

#include <functional>
#include <memory>

#include "../memory/storage.h"
#include "gemm.h"

namespace mezzo::cpu_kernels {

/** The columns of a right operand in packed panels; the elements are those of the product. */
struct PanelLayout {
  Matrix columns;  // the operand transposed: its rows are the columns
  std::int64_t count = 0, terms = 0, element_bytes = 0;

  bool operator==(const PanelLayout& other) const {
    return columns.data == other.columns.data && columns.row == other.columns.row &&
           columns.column == other.columns.column && count == other.count && terms == other.terms &&
           element_bytes == other.element_bytes;
  }
};

/** Returns the packed panels of a weight that its storage keeps (Storage::keep_packed()), or null
 *  if the caller must pack them for this call only. Panels are packed, by pack(memory), at the
 *  second use of the same version of the weight in the same layout: a weight that changes after
 *  each use, as in training without accumulation, is never kept, since packing it would gain
 *  nothing. They take `bytes` bytes for each layout, in the category of cached casts, and are
 *  dropped with the storage or when its version changes. A weight has two layouts: of the forward
 *  pass, and of the gradient of the input. Thread-safe. */
std::shared_ptr<void> kept_panels(Storage& weight, const PanelLayout& layout, std::size_t bytes,
                                  const std::function<void(void*)>& pack);

}  // namespace mezzo::cpu_kernels
