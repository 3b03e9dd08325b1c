// Kernel of cat: each operand's rows are copied, and converted, into their place.
#include "../ops/join.h"
#include "../row_major.h"

#include <cstring>

#include "../dispatch.h"
#include "../parallel.h"
#include "convert.h"

namespace mezzo::op {

namespace {

/** How the pieces of one operand lie in the result: `rows` runs of `length` elements, `step` elements apart there. */
struct Piece {
  std::int64_t rows = 1, length = 1, step = 1, offset = 0;
};

void copy_rows(const Tensor& from, const Tensor& to, const Piece& piece) {
  const auto source_item = static_cast<std::int64_t>(item_size(from.dtype())),
             target_item = static_cast<std::int64_t>(item_size(to.dtype()));
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(to.raw_data()) + piece.offset * target_item;
  const bool same = from.dtype() == to.dtype();
  const auto copy = [&](std::int64_t row, std::int64_t at, std::int64_t n) {
    const char* x = source + (row * piece.length + at) * source_item;
    char* y = target + (row * piece.step + at) * target_item;
    if (same)
      std::memcpy(y, x, static_cast<std::size_t>(n * source_item));
    else
      cpu_kernels::convert(from.dtype(), x, to.dtype(), y, n);
  };
  // Elements are cut evenly, whether they make up many short rows or a few long ones.
  parallel_chunks(piece.rows * piece.length, kElementwiseChunk, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t row = begin / piece.length, at = begin % piece.length;
      const std::int64_t n = std::min(piece.length - at, end - begin);
      copy(row, at, n);
      begin += n;
    }
  });
}

}  // namespace

void Cat::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor& y = out[0];
  if (y.numel() == 0) return;
  const CastScope no_casts(nullptr);
  const int dim = wrap_dim(attrs.dim, y.dim(), "cat");
  Piece piece;
  for (int i = 0; i < dim; ++i) piece.rows *= y.shape()[i];
  std::int64_t inner = 1;
  for (int i = dim + 1; i < y.dim(); ++i) inner *= y.shape()[i];
  piece.step = y.shape()[dim] * inner;
  for (const Tensor& x : in) {
    if (x.numel() == 0) continue;
    piece.length = x.shape()[dim] * inner;
    copy_rows(row_major(x), y, piece);
    piece.offset += piece.length;
  }
}

}  // namespace mezzo::op
