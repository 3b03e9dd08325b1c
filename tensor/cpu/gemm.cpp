// The operand with fewer rows or columns is packed once and shared by all tasks. The other one is
// packed strip by strip by the task that multiplies it, while it is in that task's cache. An
// operand that is read few times is not packed if the register blocks can read it in place. If the
// result is small and the sums are long, the depth is divided as well, and partial sums are added
// in order. All divisions depend on the shape alone. A product of a single row reads the other
// operand once and packs nothing as a whole (gemm_row.cpp).
#include "gemm.h"

#include "../device/parallel.h"
#include "gemm_pack.h"
#include "gemm_panels.h"
#include "gemm_tile.h"
#include "kept_panels.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

namespace {

/** Maximum number of bytes of the shared packed operand; larger products are computed in blocks. */
constexpr std::int64_t kMaxPacked = std::int64_t{16} << 20;

/** Target number of bytes of a packed strip: half of an L2 cache of 2 MB, and somewhat less for
 *  lines, of which twice as many are read at a time. */
template <class E>
constexpr std::int64_t kMaxStrip = kIsLine<E> ? std::int64_t{3} << 18 : std::int64_t{1} << 20;

/** Panels of the shared operand that are multiplied with a strip at a time; one depth block of them
 *  fits the L2 cache too. The sums of lines are finished after each panel, since products by tiles
 *  take little longer than reading sums from the L2 cache. */
template <class E> constexpr std::int64_t kTilePanels = kIsLine<E> ? 1 : 10;

/** Desired minimum number of strips, so that they spread evenly over threads. */
constexpr std::int64_t kEnoughStrips = 16;

/** Minimum multiply-adds per strip, about 10 us; narrower strips do not pay. */
constexpr std::int64_t kLeastStripWork = 1 << 19;

/** Minimum number of terms per partial sum if the depth is divided. */
constexpr std::int64_t kDepthSplit = 2048;

/** Maximum number of rows or columns of the other operand for which packing does not pay. */
constexpr std::int64_t kFewReaders = 512;

/** Elements of the other matrix that a task multiplies with a single row. */
constexpr std::int64_t kRowPiece = 1 << 18;

/** Estimated cost for one thread in ns, used only for the decision whether to use several
 *  threads. */
constexpr double kMultiplyAddNs = 0.02, kPackNs = 0.3;

/** Computes one block of the result whose shared operand fits the workspace. */
template <class E> class Product {
  using T = SumOf<E>;
  static constexpr std::int64_t kElementBytes = sizeof(E);

 public:
  Product(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
          const MatrixOut& c, const Epilogue& epilogue)
      : rows_(m),
        columns_(n),
        terms_(k),
        k_(steps_of<E>(k)),
        a_(a),
        b_(b.transposed()),
        c_(c),
        epilogue_(epilogue),
        a_in_place_(n <= kFewReaders && fast_in_place<E>(a_, k)),
        b_in_place_(!kIsLine<E> && m <= kFewReaders && n % RegisterBlock<E>::kLanes == 0 &&
                    b_.row == 1 && fast_in_place<E>(b_, k)),
        by_columns_(n >= m) {
    choose_strips();
  }

  /** Reads the columns of b from panels that its storage keeps, if it does; returns whether. */
  bool use_kept_panels() {
    const auto bytes = static_cast<std::size_t>(columns_.packed_size(k_)) * sizeof(E);
    kept_ = kept_panels(*b_.weight, {b_, columns_.columns, terms_, kElementBytes}, bytes,
                        [&](void* to) { pack_columns(static_cast<E*>(to)); });
    return kept_ != nullptr;
  }

  void run() {
    if constexpr (!kIsLine<E>)
      if (rows_.rows == 1) return multiply_one_row();
    const Workspace<E> shared(by_columns_ ? packed_rows() : kept_ ? 0 : packed_columns());
    shared_ = !by_columns_ && kept_ ? static_cast<E*>(kept_.get()) : shared.data();
    if (by_columns_ ? !a_in_place_ : !b_in_place_ && !kept_) pack_shared();
    if (splits_ == 1)
      multiply();
    else
      multiply_in_splits();
  }

 private:
  double cost_ns() const {
    return static_cast<double>(rows_.rows * columns_.columns) * static_cast<double>(k_) *
           kMultiplyAddNs;
  }

  void choose_strips() {
    const std::int64_t panels = by_columns_ ? columns_.count : rows_.count;
    const std::int64_t panel_bytes =
        (by_columns_ ? columns_.kWidth : rows_.height) * k_ * kElementBytes;
    const std::int64_t panel_work = rows_.rows * columns_.columns * k_ / panels;
    const std::int64_t in_cache = std::max<std::int64_t>(kMaxStrip<E> / panel_bytes, 1);
    const std::int64_t worth_while =
        ceil_div(kLeastStripWork, std::max<std::int64_t>(panel_work, 1));
    const std::int64_t enough = kIsLine<E> ? enough_tasks() : kEnoughStrips;
    strip_ = std::clamp(ceil_div(panels, enough), std::min(worth_while, panels),
                        std::max(in_cache, std::min(worth_while, panels)));
    num_strips_ = ceil_div(panels, strip_);
    splits_ = num_splits();
  }

  /** Returns the number of parts of the depth. The panels depend on the registers of the CPU; this
   *  must not, since it decides in which order sums are added. */
  std::int64_t num_splits() const {
    constexpr std::int64_t kPanel = 16;  // rows or columns
    const std::int64_t others = std::min(rows_.rows, columns_.columns),
                       panels = ceil_div(std::max(rows_.rows, columns_.columns), kPanel),
                       work = kPanel * others * terms_;
    const std::int64_t strips =
        std::clamp<std::int64_t>(panels * work / kLeastStripWork, 1, panels);
    if (strips >= kEnoughStrips) return 1;
    return std::clamp<std::int64_t>(terms_ / kDepthSplit, 1, ceil_div(kEnoughStrips, strips));
  }

  std::int64_t packed_rows() const { return a_in_place_ ? 0 : rows_.rows * k_; }
  std::int64_t packed_columns() const { return b_in_place_ ? 0 : columns_.packed_size(k_); }

  void pack_shared() const {
    if (!by_columns_) return pack_columns(shared_);
    parallel_for(
        rows_.count,
        [&](std::int64_t p) { pack_row_panel(p, {0, k_}, shared_ + p * rows_.height * k_); },
        static_cast<double>(rows_.rows * k_) * kPackNs);
  }

  void pack_columns(E* to) const {
    parallel_for(
        columns_.count,
        [&](std::int64_t q) { pack_column_panel(q, {0, k_}, to + q * columns_.kWidth * k_); },
        static_cast<double>(columns_.columns * k_) * kPackNs);
  }

  void pack_row_panel(std::int64_t p, Range steps, E* to) const {
    cpu_kernels::pack_row_panel(from(a_, p * rows_.height, first_term(steps)), rows_.height_of(p),
                                terms_of(steps), PackedPanel(to, rows_.height_of(p)));
  }
  void pack_column_panel(std::int64_t q, Range steps, E* to) const {
    cpu_kernels::pack_column_panel(from(b_, q * columns_.kWidth, first_term(steps)),
                                   columns_.valid(q), terms_of(steps),
                                   PackedPanel(to, columns_.packed_width(q)));
  }

  static std::int64_t first_term(Range steps) { return steps.begin * Factors<E>::kTerms; }
  std::int64_t terms_of(Range steps) const {
    return std::min(steps.end * Factors<E>::kTerms, terms_) - first_term(steps);
  }

  /** Multiplies strip `strip` over the given steps with the whole shared operand, and packs it
   *  first if that pays. */
  void multiply_strip(std::int64_t strip, Range steps, const MatrixOut& c,
                      const Epilogue& epilogue) const {
    const std::int64_t depth = steps.end - steps.begin;
    const std::int64_t panels = by_columns_ ? columns_.count : rows_.count,
                       others = by_columns_ ? rows_.count : columns_.count;
    const Range mine{strip * strip_, std::min((strip + 1) * strip_, panels)};
    const bool packs = by_columns_ ? !b_in_place_ && !kept_ : !a_in_place_;
    const std::int64_t panel_size = (by_columns_ ? columns_.kWidth : rows_.height) * depth;
    const Workspace<E> packed(packs ? (mine.end - mine.begin) * panel_size : 0);
    if (packs) pack_strip(mine, steps, packed.data(), panel_size);
    // Panels are addressed from number 0 on, so `first` is 0 for operands read in place.
    const Panels<E> own = by_columns_ && kept_
                              ? Panels<E>{static_cast<E*>(kept_.get()), 0, columns_.kWidth * k_,
                                          steps.begin}
                              : Panels<E>{packed.data(), mine.begin, panel_size, 0},
                    all{shared_, 0, (by_columns_ ? rows_.height : columns_.kWidth) * k_,
                        steps.begin};
    const Operands<E> operands{
        rows_, columns_,
        a_in_place_ ? panels_in_place<E>(a_, rows_.height, steps.begin) : (by_columns_ ? all : own),
        b_in_place_ ? panels_in_place<E>(b_, columns_.kWidth, steps.begin)
                    : (by_columns_ ? own : all)};
    for (std::int64_t first = 0; first < others; first += kTilePanels<E>) {
      const Range tile{first, std::min(first + kTilePanels<E>, others)};
      multiply_tile(operands, by_columns_ ? tile : mine, by_columns_ ? mine : tile, depth, c,
                    epilogue);
    }
  }

  /** Packs the panels of a strip. Lines are packed one step of all panels after another, since
   *  lanes that are adjacent in memory fill only a cache line of a panel. */
  void pack_strip(Range panels, Range steps, E* to, std::int64_t panel_size) const {
    const bool by_steps = kIsLine<E> && (by_columns_ ? b_.row : a_.row) == 1;
    const std::int64_t run = by_steps ? 1 : steps.end - steps.begin;
    for (std::int64_t at = steps.begin; at < steps.end; at += run)
      for (std::int64_t i = panels.begin; i < panels.end; ++i) {
        E* panel = to + (i - panels.begin) * panel_size;
        const Range part{at, std::min(at + run, steps.end)};
        if (by_columns_)
          pack_column_panel(i, part, panel + (at - steps.begin) * columns_.packed_width(i));
        else
          pack_row_panel(i, part, panel + (at - steps.begin) * rows_.height_of(i));
      }
  }

  void multiply() const {
    parallel_for(
        num_strips_, [&](std::int64_t strip) { multiply_strip(strip, {0, k_}, c_, epilogue_); },
        cost_ns());
  }

  void multiply_one_row() const {
    const Workspace<E> row(k_);
    pack_row_panel(0, {0, k_}, row.data());
    const std::int64_t n = columns_.columns, width = RowSums<E>::whole(n),
                       piece = RowSums<E>::whole(ceil_div(kRowPiece, k_)),
                       pieces = ceil_div(n, piece);
    const Workspace<T> partials(splits_ * width);
    const auto one = [&](std::int64_t task) {
      const std::int64_t split = task / pieces, first = task % pieces * piece;
      const Range steps = steps_of_split(split);
      RowSums<E>::compute(row.data() + steps.begin, from(b_, first, first_term(steps)),
                          std::min(piece, n - first), terms_of(steps),
                          partials.data() + split * width + first);
    };
    parallel_for(splits_ * pieces, one, cost_ns());
    finish(partials.data(), width, width);
  }

  void multiply_in_splits() const {
    const std::int64_t m = rows_.rows, n = columns_.columns;
    const Workspace<T> partials(splits_ * m * n);
    const auto one = [&](std::int64_t task) {
      const std::int64_t split = task / num_strips_;
      multiply_strip(task % num_strips_, steps_of_split(split),
                     {partials.data() + split * m * n, dtype_of<T>(), n, 1}, {});
    };
    parallel_for(splits_ * num_strips_, one, cost_ns());
    finish(partials.data(), m * n, n);
  }

  Range steps_of_split(std::int64_t split) const {
    return {split * k_ / splits_, (split + 1) * k_ / splits_};
  }

  /** Adds the partial sums of all splits, which are `size` elements apart, and writes the result;
   *  the rows of a split are `stride` elements apart. */
  void finish(T* partials, std::int64_t size, std::int64_t stride) const {
    const std::int64_t n = columns_.columns;
    for (std::int64_t i = 0; i < rows_.rows; ++i) {
      T* sums = partials + i * stride;
      for (std::int64_t split = 1; split < splits_; ++split)
        for (std::int64_t j = 0; j < n; ++j) sums[j] += sums[split * size + j];
      finish_row(sums, i, 0, n, c_, epilogue_);
    }
  }

  RowPanels<E> rows_;
  ColumnPanels<E> columns_;
  std::int64_t terms_, k_;  // terms of a sum, and steps
  Matrix a_, b_;            // both with lanes as rows
  MatrixOut c_;
  Epilogue epilogue_;
  bool a_in_place_, b_in_place_;  // read without packing
  bool by_columns_;               // strips are cut from b and a is shared, else the reverse
  E* shared_ = nullptr;
  std::shared_ptr<void> kept_;  // panels of the columns of b, kept with its storage
  // Panels per strip, number of strips, number of parts of the depth.
  std::int64_t strip_ = 1, num_strips_ = 1, splits_ = 1;
};

template <class T>
void zero_sums(std::int64_t m, std::int64_t n, const MatrixOut& c, const Epilogue& epilogue) {
  const Workspace<T> row(n);
  for (std::int64_t i = 0; i < m; ++i) {
    std::fill_n(row.data(), n, T(0));
    finish_row(row.data(), i, 0, n, c, epilogue);
  }
}

Matrix without_weight(Matrix x) {
  x.weight = nullptr;
  return x;
}

template <class E>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
              const MatrixOut& c, const Epilogue& epilogue) {
  const std::int64_t block =
      std::max<std::int64_t>(kMaxPacked / (steps_of<E>(k) * static_cast<std::int64_t>(sizeof(E))),
                             8 * RegisterBlock<E>::kColumns);
  // Only the smaller side is packed as a whole, so only that one is divided.
  const std::int64_t rows = n >= m ? block : m, columns = n >= m ? n : block;
  if (kIsLine<E> && b.weight && rows >= m && columns >= n) {
    Product<E> product(m, n, k, a, b, c, epilogue);
    if (product.use_kept_panels()) return product.run();
  }
  // Right operands of lines are transposed if their terms are adjacent, left ones if they are not.
  // So where the terms of both are, the smaller one becomes the right operand. Not for parts, whose
  // order of sums differs between left and right.
  constexpr bool kWhole = sizeof(E) == Factors<E>::kTerms * sizeof(BFloat16);
  if (kIsLine<E> && kWhole && n > m && a.column == 1 && b.row == 1)
    return multiply<E>(n, m, k, without_weight(b).transposed(), a.transposed(), c.transposed(),
                       epilogue.transposed());
  for (std::int64_t j = 0; j < n; j += columns)
    for (std::int64_t i = 0; i < m; i += rows) {
      Epilogue here = epilogue;
      here.addend = from(epilogue.addend, i, j);
      Product<E>(std::min(rows, m - i), std::min(columns, n - j), k, from(a, i, 0), from(b, 0, j),
                 from(c, i, j), here)
          .run();
    }
}

#if defined(__AVX512BF16__)
/** Returns whether a product of f16 operands is computed by their bf16 parts: by tiles, and all
 *  factors are finite. (The parts of an infinity would give nan.) */
bool products_by_parts(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a,
                       const Matrix& b) {
  return a.dtype == DType::f16 && b.dtype == DType::f16 && multiplies_half_by_parts() &&
         is_finite(a, m, k) && is_finite(b, k, n);
}
#endif

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
          const MatrixOut& c, const Epilogue& epilogue) {
  if (m == 0 || n == 0) return;
  if (n == 1 && m > 1)  // a column is computed as a row
    return gemm(n, m, k, b.transposed(), a.transposed(), c.transposed(), epilogue.transposed());
  const bool wide = c.dtype == DType::f64;
  if (k == 0)
    return wide ? zero_sums<double>(m, n, c, epilogue) : zero_sums<float>(m, n, c, epilogue);
  const bool large = tiles_pay(m, n, k);
#if defined(__AVX512BF16__)
  if (large && !wide && products_by_parts(m, n, k, a, b))
    return multiply<HalfLine>(m, n, k, a, b, c, epilogue);
#endif
  visit_factors(a.dtype, b.dtype, wide, large,
                [&]<class E>(std::type_identity<E>) { multiply<E>(m, n, k, a, b, c, epilogue); });
}

}  // namespace mezzo::cpu_kernels
