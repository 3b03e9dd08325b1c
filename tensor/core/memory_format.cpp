#include "memory_format.h"

namespace mezzo {

std::string_view name(MemoryFormat format) {
  return format == MemoryFormat::channels_last ? "channels_last" : "contiguous";
}

Strides strides_in(MemoryFormat format, const Shape& shape) {
  if (format == MemoryFormat::contiguous) return contiguous_strides(shape);
  Strides strides = shape;
  std::int64_t step = 1;
  for (int place = shape.rank() - 1; place >= 0; --place) {
    const int d = dim_at(format, shape.rank(), place);
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

bool are_dense(MemoryFormat format, const Shape& shape, const Strides& strides) {
  const bool last = format == MemoryFormat::channels_last;
  if (last && !may_be_channels_last(shape.rank())) return false;
  std::int64_t step = 1;
  for (int place = shape.rank() - 1; place >= 0; --place) {
    const int d = dim_at(format, shape.rank(), place);
    if (!last && shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

MemoryFormat suggested_format(const Shape& shape, const Strides& strides) {
  const int rank = shape.rank();
  if (!may_be_channels_last(rank) || strides[1] == 0) return MemoryFormat::contiguous;
  std::int64_t least = 0;  // minimum stride of the next dimension
  for (int place = rank - 1; place >= 0; --place) {
    const int d = dim_at(MemoryFormat::channels_last, rank, place);
    if (shape[d] == 0 || strides[d] < least) return MemoryFormat::contiguous;
    // [N,1,1,1] with one stride for all but the batch: both formats fit.
    if (d == 0 && least == strides[1]) return MemoryFormat::contiguous;
    least = strides[d] * shape[d];
  }
  return MemoryFormat::channels_last;
}

}  // namespace mezzo
