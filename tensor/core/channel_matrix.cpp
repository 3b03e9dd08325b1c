#include "channel_matrix.h"

namespace mezzo {

Tensor channels_in(MemoryFormat format, const Tensor& x) {
  if (!x.defined() || format == MemoryFormat::contiguous) return row_major(x);
  const Tensor dense = to_format(x, MemoryFormat::channels_last);
  const std::int64_t channels = x.size(1);
  return alias(dense, {x.numel() / channels, channels}, {channels, 1}, dense.impl()->offset);
}

}  // namespace mezzo
