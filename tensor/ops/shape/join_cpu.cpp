// Kernel of cat: copies, and converts, the rows of each operand to their positions in the result.
#include "../../core/row_major.h"
#include "join.h"

#include <cstring>

#include "../../core/dispatch.h"
#include "../../cpu/convert.h"
#include "../../cpu/word.h"
#include "../../device/parallel.h"

namespace mezzo::op {

namespace {

/** The positions of one operand's rows in the result: `rows` runs of `length` elements, `step`
 *  elements apart. */
struct RowSlice {
  std::int64_t rows = 1, length = 1, step = 1, offset = 0;
};

/** Rows shorter than this are copied element by element; a call per row would take longer. */
constexpr std::int64_t kShortRow = 16;

void copy_short_rows(const Tensor& from, const Tensor& to, const RowSlice& slice) {
  cpu_kernels::visit_word(to.dtype(), [&]<class Word>(std::type_identity<Word>) {
    const Word* x = static_cast<const Word*>(from.raw_data());
    Word* y = static_cast<Word*>(to.raw_data()) + slice.offset;
    parallel_chunks(slice.rows, std::max<std::int64_t>(1, kElementwiseChunk / slice.length),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t row = begin; row < end; ++row)
                        for (std::int64_t i = 0; i < slice.length; ++i)
                          y[row * slice.step + i] = x[row * slice.length + i];
                    });
  });
}

void copy_rows(const Tensor& from, const Tensor& to, const RowSlice& slice) {
  if (slice.length < kShortRow) return copy_short_rows(from.detach().to(to.dtype()), to, slice);
  const auto source_item = static_cast<std::int64_t>(item_size(from.dtype())),
             target_item = static_cast<std::int64_t>(item_size(to.dtype()));
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(to.raw_data()) + slice.offset * target_item;
  const bool same = from.dtype() == to.dtype();
  const auto copy = [&](std::int64_t row, std::int64_t at, std::int64_t n) {
    const char* x = source + (row * slice.length + at) * source_item;
    char* y = target + (row * slice.step + at) * target_item;
    if (same)
      std::memcpy(y, x, static_cast<std::size_t>(n * source_item));
    else
      cpu_kernels::convert(from.dtype(), x, to.dtype(), y, n);
  };
  // Elements are divided evenly, for many short rows as well as for a few long ones.
  parallel_chunks(slice.rows * slice.length, kElementwiseChunk,
                  [&](std::int64_t begin, std::int64_t end) {
                    while (begin < end) {
                      const std::int64_t row = begin / slice.length, at = begin % slice.length;
                      const std::int64_t n = std::min(slice.length - at, end - begin);
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
  RowSlice slice;
  for (int i = 0; i < dim; ++i) slice.rows *= y.shape()[i];
  std::int64_t inner = 1;
  for (int i = dim + 1; i < y.dim(); ++i) inner *= y.shape()[i];
  slice.step = y.shape()[dim] * inner;
  for (const Tensor& x : in) {
    if (x.numel() == 0) continue;
    slice.length = x.shape()[dim] * inner;
    copy_rows(row_major(x), y, slice);
    slice.offset += slice.length;
  }
}

}  // namespace mezzo::op
