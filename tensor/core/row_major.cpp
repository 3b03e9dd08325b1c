#include "row_major.h"

#include "../ops/shape/copy.h"
#include "dispatch.h"
#include "late_result.h"

namespace mezzo {

namespace {

/** Calls the kernel of a copying op on the tensors' device. */
template <class Op> void run_kernel(Inputs in, Tensor& out) {
  const OpInfo& op = op_info<Op>;
  const AttrsOf<Op> attrs{};
  op.kernel[static_cast<std::size_t>(out.device().kind)](op, in, {&out, 1}, &attrs);
}

Tensor empty_workspace(const Tensor& x, MemoryFormat format) {
  const CategoryScope scope(MemoryCategory::workspace);
  return empty_tensor(x.shape(), x.dtype(), x.device(), false, format);
}

}  // namespace

Tensor to_format(const Tensor& x, MemoryFormat format) {
  if (!x.defined() || x.is_contiguous(format)) return x;
  if (format == MemoryFormat::channels_last)
    if (Tensor source = channels_last_source(x); source.defined()) return source;
  Tensor copy = empty_workspace(x, format);
  run_kernel<op::Clone>({&x, 1}, copy);
  return copy;
}

bool is_channels_last_inside(const Tensor& x) { return channels_last_source(x).defined(); }

MemoryFormat common_format(std::span<const Tensor> in, const Tensor& result, int spatial) {
  if (in[0].dim() != spatial + 2) return MemoryFormat::contiguous;
  if (!result.is_contiguous()) return MemoryFormat::channels_last;
  const bool is_both = result.is_contiguous(MemoryFormat::channels_last);
  return is_both ? kept_format(ChannelsLast::like_either, in, result.shape())
                 : MemoryFormat::contiguous;
}

Tensor channels_at_end(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (int place = 0; place < x.dim(); ++place) {
    const int d = dim_at(MemoryFormat::channels_last, x.dim(), place);
    shape[place] = x.shape()[d];
    strides[place] = x.strides()[d];
  }
  return alias(x, shape, strides, x.impl()->offset);
}

Tensor detail::contiguous_scratch(const Tensor& x) {
  return empty_workspace(x, MemoryFormat::contiguous);
}

void detail::copy_into(const Tensor& from, Tensor& to) {
  const Tensor operands[] = {to, from};
  run_kernel<op::Copy>(operands, to);
}

Tensor channels_in(MemoryFormat format, const Tensor& x) {
  if (!x.defined() || format == MemoryFormat::contiguous) return row_major(x);
  const Tensor dense = to_format(x, MemoryFormat::channels_last);
  const std::int64_t channels = x.size(1);
  return alias(dense, {x.numel() / channels, channels}, {channels, 1}, dense.impl()->offset);
}

}  // namespace mezzo
