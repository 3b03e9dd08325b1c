// The CUDA kernel that copies the elements that a convolution's kernel reads in a row.
#include "conv_columns.h"

#include <algorithm>

#include "../host_map.h"
#include "../items.h"
#include "../shape/copy.h"
#include "../typed.h"

namespace mezzo::gpu {

namespace {

constexpr int kPack = 8;  // elements of 16 bits

/** Rows of dense elements, and the windows of each that become rows of packs. */
struct Windows {
  std::int64_t packs;                // in all, fewer than 2^31
  Divider row, of_window;            // by the packs of a row of windows and of a window
  int length, step, before, window;  // elements of a row, between windows, before it, of a window
};

__global__ void __launch_bounds__(kItemThreads)
    windows_kernel(const Windows __grid_constant__ of, const std::uint16_t* rows,
                   PackWords* packs) {
  const std::int64_t i = item_here();
  if (i >= of.packs) return;
  const auto pack = static_cast<std::uint32_t>(i);
  const std::uint32_t row = of.row.quotient(pack), at = pack - row * of.row.by,
                      window = of.of_window.quotient(at);
  const int first = static_cast<int>((at - window * of.of_window.by) * kPack),
            from = static_cast<int>(window) * of.step - of.before + first;
  const std::uint16_t* const elements = rows + std::int64_t{row} * of.length + from;
  std::uint16_t found[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const bool is_inside =
        static_cast<unsigned>(from + k) < static_cast<unsigned>(of.length) && first + k < of.window;
    found[k] = is_inside ? elements[k] : std::uint16_t{0};
  }
  PackWords words;
#pragma unroll
  for (int k = 0; k < kPack; k += 2)
    words.item[k / 2] = found[k] | static_cast<std::uint32_t>(found[k + 1]) << 16;
  store_words(packs + i, words);
}

std::int64_t channels_of(const Tensor& x, int dims) { return x.size(x.dim() - dims - 1); }

/** Returns the elements that the kernel reads in a row. */
std::int64_t window_of(const ConvCall& call) {
  return channels_of(call.x, call.dims) * call.geometry.kernel[2];
}
std::int64_t padded(std::int64_t window) { return blocks_for(window, kPack) * kPack; }

/** Copies `count` windows of each row of x. */
void copy_windows(const Tensor& x, std::int64_t length, std::int64_t count, std::int64_t step,
                  std::int64_t before, std::int64_t window, const Tensor& to) {
  const std::int64_t packs = to.numel() / kPack, of_window = padded(window) / kPack;
  const Windows of{packs,
                   Divider(static_cast<std::uint32_t>(count * of_window)),
                   Divider(static_cast<std::uint32_t>(of_window)),
                   static_cast<int>(length),
                   static_cast<int>(step),
                   static_cast<int>(before),
                   static_cast<int>(window)};
  launch_over(packs, x.device(), &windows_kernel, of,
              static_cast<const std::uint16_t*>(x.raw_data()),
              static_cast<PackWords*>(to.raw_data()));
}

/** Returns an array for one whose channels are a window, and whose last size is `columns`. */
Tensor empty_windows(const Tensor& like, const ConvCall& call, std::int64_t columns) {
  Shape shape = like.shape();
  if (like.dim() == call.dims + 1) {  // without a batch
    shape = Shape::filled(like.dim() + 1, 1);
    for (int i = 0; i < like.dim(); ++i) shape[i + 1] = like.shape()[i];
  }
  shape[1] = padded(window_of(call));
  shape[shape.rank() - 1] = columns;
  return empty_tensor(shape, like.dtype(), like.device(), false, call.format);
}

}  // namespace

bool has_few_channels(const ConvCall& call) {
  const op::ConvGeometry& g = call.geometry;
  const std::int64_t channels = channels_of(call.x, call.dims), columns = g.kernel[2];
  constexpr std::int64_t kMost = 1 << 30;  // elements of a row, and packs
  if (call.wanted == dnn::Convolution::Wanted::x || call.format != MemoryFormat::channels_last ||
      !is_low(call.x.dtype()) || g.groups != 1 || channels >= kPack || columns == 1 ||
      g.dilation[2] != 1)
    return false;
  const std::int64_t window = padded(channels * columns),
                     rows = call.x.numel() / (channels * g.in[2]);
  return window <= 2 * channels_of(call.y, call.dims) &&
         std::max(g.in[2] + 2 * g.pad[2], g.out[2] * g.stride[2]) * channels < kMost &&
         rows * g.out[2] <= kMost / (window / kPack);
}

ConvCall with_columns_as_channels(const ConvCall& call) {
  const op::ConvGeometry& g = call.geometry;
  const CategoryScope scope(MemoryCategory::workspace);
  const std::int64_t channels = channels_of(call.x, call.dims), window = window_of(call);
  ConvCall to = call;
  to.x = empty_windows(call.x, call, g.out[2]);
  copy_windows(call.x, g.in[2] * channels, g.out[2], g.stride[2] * channels, g.pad[2] * channels,
               window, to.x);
  to.weight = empty_windows(call.weight, call, 1);
  if (call.wanted == dnn::Convolution::Wanted::y)
    copy_windows(call.weight, window, 1, 0, 0, window, to.weight);
  to.geometry.in[2] = g.out[2];
  to.geometry.kernel[2] = to.geometry.stride[2] = 1;
  to.geometry.pad[2] = 0;
  return to;
}

void copy_weight_of_columns(const ConvCall& with_columns, const ConvCall& call) {
  const std::int64_t window = window_of(call), rows = call.weight.numel() / window;
  const Tensor from = alias(with_columns.weight, {rows, window}, {padded(window), 1},
                            with_columns.weight.impl()->offset);
  Tensor to = alias(call.weight, {rows, window}, {window, 1}, call.weight.impl()->offset);
  copy_elements(from, to);
}

}  // namespace mezzo::gpu
