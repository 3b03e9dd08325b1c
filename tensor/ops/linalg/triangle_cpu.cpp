// Kernels of tril and triu.
#include "triangle.h"

#include <algorithm>
#include <cstring>

#include "../../device/parallel.h"
#include "../index/index_list_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Copies x and zeroes the elements after (lower) or before (upper) the kept ones in every row of
 *  every matrix. */
void keep_triangle(const Tensor& x, const Tensor& y, std::int64_t diagonal, bool lower) {
  if (y.numel() == 0) return;
  start_from(x, y);
  const auto item = static_cast<std::int64_t>(item_size(y.dtype()));
  const std::int64_t rows = y.shape()[y.dim() - 2], columns = y.shape()[y.dim() - 1];
  char* const data = static_cast<char*>(y.raw_data());
  // Beyond these limits every diagonal keeps all or nothing. Clamping prevents overflow below.
  diagonal = std::clamp(diagonal, -rows - 1, columns + 1);
  parallel_chunks(
      y.numel() / columns, std::max<std::int64_t>(1, kElementwiseChunk / columns),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const std::int64_t edge =
              std::clamp<std::int64_t>(r % rows + diagonal + lower, 0, columns);
          const std::int64_t from = lower ? edge : 0, to = lower ? columns : edge;
          std::memset(data + (r * columns + from) * item, 0,
                      static_cast<std::size_t>((to - from) * item));
        }
      },
      static_cast<double>(columns) * 0.1);
}

}  // namespace

void Tril::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  keep_triangle(in[0], out[0], attrs.diagonal, true);
}

void Triu::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  keep_triangle(in[0], out[0], attrs.diagonal, false);
}

}  // namespace mezzo::op
