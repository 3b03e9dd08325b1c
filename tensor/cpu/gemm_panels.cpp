// A tile is computed one depth block at a time. Its sums stay in f32 (f64) until the epilogue
// rounds them once.
#include "gemm_panels.h"

#include "../device/parallel.h"
#include "gemm_tile.h"
#include "narrow.h"
#include "prefetch.h"
#include "transpose.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

namespace {

const char* address(const Matrix& x, std::int64_t i, std::int64_t j) {
  return static_cast<const char*>(x.data) +
         (i * x.row + j * x.column) * static_cast<std::int64_t>(item_size(x.dtype));
}

char* address(const MatrixOut& c, std::int64_t i, std::int64_t j) {
  return static_cast<char*>(c.data) +
         (i * c.row + j * c.column) * static_cast<std::int64_t>(item_size(c.dtype));
}

/** Elements per iteration of finish_row. */
constexpr std::int64_t kRun = 64;

/** Converts n elements of the addend's row to T. */
template <class T>
void load_addend(const Matrix& x, std::int64_t i, std::int64_t j, std::int64_t n, T* to) {
  const char* from = address(x, i, j);
  if (x.column == 1) return convert(x.dtype, from, dtype_of<T>(), to, n);
  convert(x.dtype, from, dtype_of<T>(), to, 1);
  if (x.column == 0) return std::fill(to + 1, to + n, to[0]);
  for (std::int64_t e = 1; e < n; ++e)
    convert(x.dtype, address(x, i, j + e), dtype_of<T>(), to + e, 1);
}

template <class T>
void store_row(const T* sums, std::int64_t i, std::int64_t j, std::int64_t n, const MatrixOut& c) {
  char* to = address(c, i, j);
  if (c.column == 1) {
    if (static_cast<const void*>(to) != sums) narrow_row(sums, c.dtype, to, n);
    return;
  }
  for (std::int64_t e = 0; e < n; ++e)
    convert(dtype_of<T>(), sums + e, c.dtype, address(c, i, j + e), 1);
}

}  // namespace

template <class T>
void finish_row(T* sums, std::int64_t i, std::int64_t j, std::int64_t n, const MatrixOut& c,
                const Epilogue& epilogue) {
  if (epilogue.alpha != 1) {
    const T alpha = static_cast<T>(epilogue.alpha);
    for (std::int64_t e = 0; e < n; ++e) sums[e] *= alpha;
  }
  if (epilogue.beta != 0) {
    const T beta = static_cast<T>(epilogue.beta);
    T addend[kRun];
    for (std::int64_t at = 0; at < n; at += kRun) {
      const std::int64_t run = std::min(kRun, n - at);
      load_addend(epilogue.addend, i, j + at, run, addend);
      for (std::int64_t e = 0; e < run; ++e) sums[at + e] += beta * addend[e];
    }
  }
  if constexpr (std::is_same_v<T, float>)
    if (c.rounds_to) round_to(*c.rounds_to, sums, n);
  store_row(sums, i, j, n, c);
}

namespace {

/** One tile of the result: the memory of its sums, and the passes that add to them. */
template <class E> class Tile {
  using T = SumOf<E>;

 public:
  Tile(const Operands<E>& x, Range row_panels, Range column_panels, const MatrixOut& c,
       const Epilogue& epilogue)
      : x_(x),
        row_panels_(row_panels),
        column_panels_(column_panels),
        c_(c),
        epilogue_(epilogue),
        first_row_(row_panels.begin * x.rows.height),
        first_column_(column_panels.begin * x.columns.kWidth),
        num_rows_(std::min(row_panels.end * x.rows.height, x.rows.rows) - first_row_),
        num_columns_(std::min(column_panels.end * x.columns.kWidth, x.columns.columns) -
                     first_column_),
        in_place_(can_sum_in(c, epilogue)),
        scratch_(in_place_ ? 0 : num_rows_ * padded_columns()) {
    sums_ =
        in_place_ ? reinterpret_cast<T*>(address(c, first_row_, first_column_)) : scratch_.data();
    stride_ = in_place_ ? c.row : padded_columns();
  }

  void add(Range steps, bool accumulate) {
    for (std::int64_t p = row_panels_.begin; p < row_panels_.end; ++p)
      for (std::int64_t q = column_panels_.begin; q < column_panels_.end; ++q)
        add_block(p, q, steps, accumulate);
  }

  void finish() {
    const bool finished = in_place_ && epilogue_.alpha == 1 && epilogue_.beta == 0 && !c_.rounds_to;
    if (finished) return;
    if (c_.row == 1 && c_.column != 1) return finish_columns();
    for (std::int64_t i = 0; i < num_rows_; ++i)
      finish_row(sums_ + i * stride_, first_row_ + i, first_column_, num_columns_, c_, epilogue_);
  }

 private:
  /** Returns whether sums can accumulate in the result's own memory: it has their type, and it is
   *  not an operand that is still to be read. */
  static bool can_sum_in(const MatrixOut& c, const Epilogue& epilogue) {
    return c.dtype == dtype_of<T>() && c.column == 1 &&
           (epilogue.beta == 0 || epilogue.addend.data != c.data);
  }

  /** Finishes a column-major result: columns of the tile are rows of the result's memory. */
  void finish_columns() const {
    const Workspace<T> columns(num_rows_ * num_columns_);
    transpose(sums_, stride_, columns.data(), num_rows_, num_rows_, num_columns_);
    const MatrixOut c = c_.transposed();
    const Epilogue epilogue = epilogue_.transposed();
    for (std::int64_t j = 0; j < num_columns_; ++j)
      finish_row(columns.data() + j * num_rows_, first_column_ + j, first_row_, num_rows_, c,
                 epilogue);
  }

  std::int64_t padded_columns() const {
    // Rows that are whole kilobytes apart would evict each other from the L1 cache.
    constexpr std::int64_t kLine = 16;
    return (column_panels_.end - column_panels_.begin) * x_.columns.kWidth +
           (kIsLine<E> ? kLine : 0);
  }

  void add_block(std::int64_t p, std::int64_t q, Range steps, bool accumulate) {
    const int height = x_.rows.height_of(p), vectors = x_.columns.vectors_of(q);
    const std::int64_t width = x_.columns.packed_width(q), valid = x_.columns.valid(q);
    const std::int64_t depth = steps.end - steps.begin;
    const BlockRows<E> a = x_.a.rows_of(p, height, steps.begin);
    const BlockColumns<E> b = x_.b.columns_of(q, width, steps.begin);
    T* to =
        sums_ + (p * x_.rows.height - first_row_) * stride_ + q * x_.columns.kWidth - first_column_;
    if (!kIsLine<E> && !accumulate) prefetch_result(p, q);
    // In scratch memory, full vectors may extend past the last column; in the result they must not.
    if (!in_place_ || valid == width)
      return multiply_block(height, vectors, depth, a, b, to, stride_, accumulate);
    constexpr std::int64_t kStride = ColumnPanels<E>::kWidth;
    T block[RegisterBlock<E>::kRows * kStride] = {};
    if (accumulate)
      for (int i = 0; i < height; ++i) std::copy_n(to + i * stride_, valid, block + i * kStride);
    multiply_block(height, vectors, depth, a, b, block, kStride, accumulate);
    for (int i = 0; i < height; ++i) std::copy_n(block + i * kStride, valid, to + i * stride_);
  }

  /** Prefetches the memory of a block's results, which is often not in the cache, so that it
   * arrives while the block is computed. This matters for short sums, as in weight gradients. */
  MZ_ALWAYS_INLINE void prefetch_result(std::int64_t p, std::int64_t q) const {
    if (c_.column != 1) return;
    const auto item = static_cast<std::int64_t>(item_size(c_.dtype));
    prefetch_rows(address(c_, p * x_.rows.height, q * x_.columns.kWidth), x_.rows.height_of(p),
                  c_.row * item, x_.columns.valid(q) * item);
  }

  const Operands<E>& x_;
  Range row_panels_, column_panels_;
  const MatrixOut& c_;
  const Epilogue& epilogue_;
  std::int64_t first_row_, first_column_, num_rows_, num_columns_;
  bool in_place_;
  Workspace<T> scratch_;
  T* sums_;
  std::int64_t stride_;
};

}  // namespace

std::int64_t enough_tasks() {
  const int threads = num_threads();
  return threads == 1 ? 1 : std::min(4 * threads, 16);
}

template <class E>
void multiply_tile(const Operands<E>& x, Range row_panels, Range column_panels, std::int64_t depth,
                   const MatrixOut& c, const Epilogue& epilogue) {
  const TileScope<E> scope;
  Tile<E> tile(x, row_panels, column_panels, c, epilogue);
  for (std::int64_t at = 0; at < depth; at += kDepthBlock<E>)
    tile.add({at, std::min(at + kDepthBlock<E>, depth)}, at > 0);
  tile.finish();
}

template void finish_row(float*, std::int64_t, std::int64_t, std::int64_t, const MatrixOut&,
                         const Epilogue&);
template void finish_row(double*, std::int64_t, std::int64_t, std::int64_t, const MatrixOut&,
                         const Epilogue&);
template void multiply_tile(const Operands<float>&, Range, Range, std::int64_t, const MatrixOut&,
                            const Epilogue&);
template void multiply_tile(const Operands<double>&, Range, Range, std::int64_t, const MatrixOut&,
                            const Epilogue&);
#if defined(__AVX512BF16__)
template void multiply_tile(const Operands<BFloat16Pair>&, Range, Range, std::int64_t,
                            const MatrixOut&, const Epilogue&);
template void multiply_tile(const Operands<BFloat16Line>&, Range, Range, std::int64_t,
                            const MatrixOut&, const Epilogue&);
template void multiply_tile(const Operands<HalfLine>&, Range, Range, std::int64_t, const MatrixOut&,
                            const Epilogue&);
#endif

}  // namespace mezzo::cpu_kernels
