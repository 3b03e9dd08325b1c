#include "conv_geometry.h"

namespace mezzo::op {

Extent leading(const Extent& x, int dims, std::int64_t fill) {
  Extent out{fill, fill, fill};
  for (int i = 0; i < dims; ++i)
    out[static_cast<std::size_t>(3 - dims + i)] = x[static_cast<std::size_t>(i)];
  return out;
}

Volume volume_of(const Tensor& x, int dims) {
  Volume v{x.raw_data(), x.dtype()};
  const int first = x.dim() - dims;
  if (first == 2) v.batch = x.shape()[0];
  v.channels = x.shape()[first - 1];
  for (int i = 0; i < dims; ++i)
    v.size[static_cast<std::size_t>(3 - dims + i)] = x.shape()[first + i];
  return v;
}

ConvGeometry conv_geometry(const ConvAttrs& attrs, const Extent& in, const Extent& out,
                           const Extent& kernel) {
  return {attrs.groups,
          in,
          out,
          kernel,
          leading(attrs.stride, attrs.dims, 1),
          leading(attrs.dilation, attrs.dims, 1),
          leading(attrs.pad_begin, attrs.dims, 0)};
}

}  // namespace mezzo::op
