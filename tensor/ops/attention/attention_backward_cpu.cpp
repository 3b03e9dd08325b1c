// Gradients of attention. The probabilities are recomputed tile by tile from the saved
// log-sum-exps. A task computes the gradients of a run of keys over all queries. If an entry's keys
// are divided among tasks, the gradients of the queries are partial sums that are added in order.
#include <cstring>
#include <limits>

#include "../../cpu/block_io.h"
#include "../../cpu/convert.h"
#include "../../device/parallel.h"
#include "../../math/math.h"
#include "attention.h"
#include "attention_tiles_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Desired minimum number of tasks, so that few batch entries still use several threads. */
constexpr std::int64_t kEnoughTasks = 16;

/** Returns the number of key blocks per task. */
std::int64_t blocks_per_task(const AttentionProblem& problem) {
  const std::int64_t blocks = ceil_div(problem.keys, kKeyBlock);
  const std::int64_t runs =
      std::clamp<std::int64_t>(ceil_div(kEnoughTasks, std::max<std::int64_t>(problem.entries, 1)),
                               1, std::max<std::int64_t>(blocks, 1));
  return std::max<std::int64_t>(ceil_div(blocks, runs), 1);
}

/** The outputs and the operands that are not in AttentionProblem. */
template <class T> struct BackwardOperands {
  BatchedMatrix g, y;
  const T* log_sums;
  BlockWriter<T> dq, dk, dv, dmask;
  bool wants_mask;
};

/** The right operand of a product over the queries of a strip, in panels of columns. */
template <class E> class ColumnOperand {
 public:
  ColumnOperand(std::int64_t strips, std::int64_t columns)
      : panels_(columns), room_(std::max<std::int64_t>(strips * strip_size(), 1)) {}

  std::int64_t strip_size() const { return panels_.packed_size(kSteps); }
  std::int64_t stride() const { return panels_.count * panels_.kWidth; }

  void pack(std::int64_t strip, const Matrix& x, std::int64_t queries) {
    E* to = room_.data() + strip * strip_size();
    for (std::int64_t p = 0; p < panels_.count; ++p)
      pack_column_panel(part(x, 0, p * panels_.kWidth).transposed(), panels_.valid(p), queries,
                        PackedPanel(to + p * panels_.kWidth * kSteps, panels_.packed_width(p)));
  }

  /** Computes c[lane][column] += the sum over the strip's queries of a(query, lane) x(query,
   *  column), for `height` lanes. */
  void add_product(std::int64_t strip, const BlockRows<E>& a, int height, std::int64_t queries,
                   SumOf<E>* c) const {
    const E* b = room_.data() + strip * strip_size();
    const TileScope<E> scope;
    for (std::int64_t p = 0; p < panels_.count; ++p)
      multiply_block<E>(height, panels_.vectors_of(p), steps_of<E>(queries), a,
                        {b + p * panels_.kWidth * kSteps, panels_.packed_width(p)},
                        c + p * panels_.kWidth, stride(), true);
  }

 private:
  static constexpr std::int64_t kSteps = steps_of<E>(RegisterBlock<E>::kColumns);

  ColumnPanels<E> panels_;
  Workspace<E> room_;
};

/** The tile [key][query] as the left operand of products over queries: the tile itself, or a copy
 *  rounded to bf16, in which the factors of a pair or a line are adjacent. */
template <class E> class TileRows {
 public:
  explicit TileRows(std::int64_t size) : room_(kRounds<E> ? size : 0) {}

  /** Of each row, `width` elements are stored, of which `valid` count. */
  void set(const SumOf<E>* tile, std::int64_t rows, std::int64_t width, std::int64_t valid) {
    width_ = steps_of<E>(width);
    if constexpr (kIsLine<E>) {
      E* lines = reinterpret_cast<E*>(room_.data());
      pack_row_panel({tile, DType::f32, width, 1}, rows, valid, PackedPanel(lines, rows));
      data_ = lines;
    } else if constexpr (kRounds<E>) {
      narrow(tile, room_.data(), rows * width);
      data_ = reinterpret_cast<const E*>(room_.data());
    } else {
      data_ = tile;
    }
  }
  BlockRows<E> from(std::int64_t key) const { return {data_ + key * width_, width_, 1}; }

 private:
  Workspace<BFloat16> room_;
  const E* data_ = nullptr;
  std::int64_t width_ = 0;
};

/** Computes the gradients for a run of one entry's keys and all its queries. */
template <class E> class KeyRun {
  using T = SumOf<E>;

 public:
  /** Zeroes `dq`, which receives the gradients of the queries as [strip][feature][lane]. */
  KeyRun(const AttentionProblem& problem, const BackwardOperands<T>& operands, std::int64_t entry,
         T* dq)
      : problem_(problem),
        operands_(operands),
        entry_(entry),
        dq_(dq),
        strips_(ceil_div(problem.queries, kWidth)),
        queries_(strips_ * steps_of<E>(problem.features) * kWidth),
        gradients_(strips_ * steps_of<E>(problem.values) * kWidth),
        lanes_(2 * strips_ * kWidth),
        query_columns_(strips_, problem.features),
        gradient_columns_(strips_, problem.values),
        tiles_(3 * kTile),
        p_rows_(kTile),
        ds_rows_(kTile),
        ds_pairs_(kRounds<E> ? steps_of<E>(kTile / kWidth) * kWidth : 0),
        keys_(kKeyBlock, problem.features),
        key_values_(kKeyBlock, problem.values),
        key_columns_(problem.features, kKeyBlock),
        dk_(kKeyBlock * query_columns_.stride()),
        dv_(kKeyBlock * gradient_columns_.stride()) {
    std::fill_n(dq_, strips_ * problem.features * kWidth, T(0));
    for (std::int64_t i = 0; i < strips_; ++i) pack_queries(i);
  }

  /** Processes the keys [first, first + rows), at most one block. */
  void run(std::int64_t first, std::int64_t rows) {
    keys_.set(part(problem_.k.at(entry_), first, 0), rows, problem_.features);
    key_values_.set(part(problem_.v.at(entry_), first, 0), rows, problem_.values);
    key_columns_.set(part(problem_.k.at(entry_), first, 0).transposed(), problem_.features, rows);
    std::fill_n(dk_.data(), rows * query_columns_.stride(), T(0));
    std::fill_n(dv_.data(), rows * gradient_columns_.stride(), T(0));
    for (std::int64_t i = 0; i < strips_; ++i) add_strip(i, first, rows);
    multiply(dk_.data(), rows * query_columns_.stride(), scale());
    write(operands_.dk, dk_.data(), query_columns_.stride(), problem_.features, first, rows);
    write(operands_.dv, dv_.data(), gradient_columns_.stride(), problem_.values, first, rows);
  }

 private:
  static constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;
  static constexpr std::int64_t kTile = (kKeyBlock + RegisterBlock<E>::kRows) * kWidth;

  T scale() const { return static_cast<T>(problem_.attrs.scale); }
  Strip strip(std::int64_t i) const { return strip_of<E>(entry_, i * kWidth, problem_.queries); }
  E* query(std::int64_t i) const {
    return queries_.data() + i * steps_of<E>(problem_.features) * kWidth;
  }
  E* gradient(std::int64_t i) const {
    return gradients_.data() + i * steps_of<E>(problem_.values) * kWidth;
  }
  T* log_sum(std::int64_t i) const { return lanes_.data() + 2 * i * kWidth; }
  /** Returns the sum of g y of each lane, which the gradient of softmax subtracts. */
  T* offset(std::int64_t i) const { return log_sum(i) + kWidth; }

  void pack_queries(std::int64_t i) {
    const Strip lanes = strip(i);
    const std::int64_t width = lanes.width<E>();
    const Matrix q = problem_.q.at(entry_), g = operands_.g.at(entry_);
    pack_strip(q, lanes, problem_.features, query(i));
    if constexpr (!kRounds<E>) multiply(query(i), problem_.features * width, scale());
    pack_strip(g, lanes, problem_.values, gradient(i));
    query_columns_.pack(i, part(q, lanes.first, 0), lanes.valid);
    gradient_columns_.pack(i, part(g, lanes.first, 0), lanes.valid);
    const std::int64_t size = std::max<std::int64_t>(problem_.values * width, 1);
    const Workspace<T> y(size), wide(kRounds<E> ? size : 0);
    pack_strip(operands_.y.at(entry_), lanes, problem_.values, y.data());
    const T* gradients;
    if constexpr (kRounds<E>) {
      pack_strip(g, lanes, problem_.values, wide.data());
      gradients = wide.data();
    } else {
      gradients = gradient(i);
    }
    std::fill_n(offset(i), kWidth, T(0));
    for (std::int64_t e = 0; e < problem_.values; ++e)
      for (std::int64_t lane = 0; lane < width; ++lane)
        offset(i)[lane] += gradients[e * width + lane] * y.data()[e * width + lane];
    std::fill_n(log_sum(i), kWidth, std::numeric_limits<T>::infinity());
    std::copy_n(operands_.log_sums + entry_ * problem_.queries + lanes.first, lanes.valid,
                log_sum(i));
  }

  void add_strip(std::int64_t i, std::int64_t first, std::int64_t block_rows) {
    const Strip lanes = strip(i);
    const std::int64_t rows = problem_.visible(first, block_rows, lanes.end()),
                       width = lanes.width<E>();
    if (rows <= 0) return;
    T *p = tiles_.data(), *ds = p + kTile, *factors = ds + kTile;
    keys_.multiply(query(i), lanes.vectors, rows, problem_.features, p, false);
    if constexpr (kRounds<E>) multiply(p, rows * width, scale());
    apply_mask(problem_, lanes, first, rows, p, ds);
    key_values_.multiply(gradient(i), lanes.vectors, rows, problem_.values, ds, false);
    visit_vectors(lanes.vectors, [&]<int kVectors>(std::integral_constant<int, kVectors>) {
      score_gradients<kVectors>(i, lanes, first, rows, p, ds, factors);
    });
    if (operands_.wants_mask) write_mask_gradient(lanes, first, rows, ds);
    key_columns_.multiply(right_operand(ds, rows, width, ds_pairs_.data()), lanes.vectors,
                          problem_.features, rows, dq_ + i * problem_.features * kWidth, true);
    p_rows_.set(p, rows, width, lanes.valid);
    ds_rows_.set(ds, rows, width, lanes.valid);
    add_keys(p_rows_, lanes.valid, rows, gradient_columns_, i, dv_.data());
    add_keys(ds_rows_, lanes.valid, rows, query_columns_, i, dk_.data());
  }

  /** Converts p from scores to dropped-out probabilities, and ds from their gradients to the
   *  gradients of the scores. */
  template <int kVectors>
  void score_gradients(std::int64_t i, const Strip& lanes, std::int64_t first, std::int64_t rows,
                       T* p, T* ds, T* factors) {
    constexpr int kLanes = kVectors * Simd<T>::kWidth;
    T shift[kLanes], subtract[kLanes];
    std::copy_n(log_sum(i), kLanes, shift);
    std::copy_n(offset(i), kLanes, subtract);
    for (std::int64_t s = 0; s < rows; ++s)
      for (int lane = 0; lane < kLanes; ++lane)
        p[s * kLanes + lane] = math::exp(p[s * kLanes + lane] - shift[lane]);
    if (problem_.attrs.dropout_p == 0) {
      for (std::int64_t s = 0; s < rows; ++s)
        for (int lane = 0; lane < kLanes; ++lane)
          ds[s * kLanes + lane] = p[s * kLanes + lane] * (ds[s * kLanes + lane] - subtract[lane]);
      return;
    }
    dropout_factors(problem_, lanes, first, rows, factors);
    for (std::int64_t s = 0; s < rows; ++s)
      for (int lane = 0; lane < kLanes; ++lane) {
        const std::int64_t at = s * kLanes + lane;
        ds[at] = p[at] * (ds[at] * factors[at] - subtract[lane]);
        p[at] *= factors[at];
      }
  }

  /** Computes to[key][column] += the sum over the strip's queries of tile(key, query) x(query,
   *  column). */
  void add_keys(const TileRows<E>& tile, std::int64_t queries, std::int64_t rows,
                const ColumnOperand<E>& x, std::int64_t i, T* to) {
    const RowPanels<E> panels(rows);
    for (std::int64_t panel = 0; panel < panels.count; ++panel) {
      const std::int64_t key = panel * panels.height;
      x.add_product(i, tile.from(key), panels.height_of(panel), queries, to + key * x.stride());
    }
  }

  void write(const BlockWriter<T>& to, const T* from, std::int64_t stride, std::int64_t n,
             std::int64_t first, std::int64_t rows) const {
    for (std::int64_t s = 0; s < rows && n > 0; ++s)
      to.copy((entry_ * problem_.keys + first + s) * n, n, from + s * stride);
  }

  void write_mask_gradient(const Strip& lanes, std::int64_t first, std::int64_t rows,
                           const T* ds) const {
    T row[kKeyBlock];
    for (std::int64_t lane = 0; lane < lanes.valid; ++lane) {
      for (std::int64_t s = 0; s < rows; ++s) row[s] = ds[s * lanes.width<E>() + lane];
      operands_.dmask.copy((entry_ * problem_.queries + lanes.first + lane) * problem_.keys + first,
                           rows, row);
    }
  }

  const AttentionProblem& problem_;
  const BackwardOperands<T>& operands_;
  std::int64_t entry_;
  T* dq_;
  std::int64_t strips_;
  Workspace<E> queries_, gradients_;
  Workspace<T> lanes_;
  ColumnOperand<E> query_columns_, gradient_columns_;
  Workspace<T> tiles_;
  TileRows<E> p_rows_, ds_rows_;
  Workspace<E> ds_pairs_;
  RowOperand<E> keys_, key_values_, key_columns_;
  Workspace<T> dk_, dv_;
};

/** Sums the partial gradients of an entry's queries and writes them to their rows. */
template <class E, class T = SumOf<E>>
void finish_queries(const AttentionProblem& problem, std::int64_t entry, const T* partials,
                    std::int64_t runs, std::int64_t size, const BlockWriter<T>& dq) {
  const std::int64_t n = problem.features;
  if (n == 0) return;
  const T scale = static_cast<T>(problem.attrs.scale);
  Scratch<T> row(n);
  for (std::int64_t query = 0; query < problem.queries; ++query) {
    constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;
    const std::int64_t i = query / kWidth, lane = query % kWidth;
    const std::int64_t width = strip_of<E>(entry, i * kWidth, problem.queries).template width<E>();
    for (std::int64_t e = 0; e < n; ++e) {
      const T* at = partials + i * n * kWidth + e * width + lane;
      T sum = *at;
      for (std::int64_t run = 1; run < runs; ++run) sum += at[run * size];
      row.data()[e] = sum * scale;
    }
    dq.copy((entry * problem.queries + query) * n, n, row.data());
  }
}

template <class E, class T = SumOf<E>>
void differentiate(const AttentionProblem& problem, const BackwardOperands<T>& operands) {
  const std::int64_t blocks = blocks_per_task(problem);
  const std::int64_t runs =
      std::max<std::int64_t>(ceil_div(ceil_div(problem.keys, kKeyBlock), blocks), 1);
  const std::int64_t size =
      std::max<std::int64_t>(ceil_div(problem.queries, RegisterBlock<E>::kColumns) *
                                 problem.features * RegisterBlock<E>::kColumns,
                             1);
  const double work = static_cast<double>(problem.entries * problem.queries) *
                      static_cast<double>(problem.keys * (problem.features + problem.values)) *
                      0.08;
  const auto keys_of = [&](std::int64_t entry, std::int64_t run, T* dq) {
    KeyRun<E> task(problem, operands, entry, dq);
    const std::int64_t end = std::min((run + 1) * blocks * kKeyBlock, problem.keys);
    for (std::int64_t first = run * blocks * kKeyBlock; first < end; first += kKeyBlock)
      task.run(first, std::min(kKeyBlock, end - first));
  };
  if (runs == 1)
    return parallel_for(
        problem.entries,
        [&](std::int64_t entry) {
          const Workspace<T> dq(size);
          keys_of(entry, 0, dq.data());
          finish_queries<E>(problem, entry, dq.data(), 1, size, operands.dq);
        },
        work);
  const Workspace<T> partials(problem.entries * runs * size);
  parallel_for(
      problem.entries * runs,
      [&](std::int64_t task) { keys_of(task / runs, task % runs, partials.data() + task * size); },
      work);
  parallel_for(problem.entries, [&](std::int64_t entry) {
    finish_queries<E>(problem, entry, partials.data() + entry * runs * size, runs, size,
                      operands.dq);
  });
}

void zero(Tensor& x) {
  std::memset(x.raw_data(), 0, static_cast<std::size_t>(x.numel()) * item_size(x.dtype()));
}

}  // namespace

void op::AttentionBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const AttentionProblem problem(in[1], in[2], in[3], in[4], attrs.forward);
  // Elements in no tile must be 0: all of them without queries or keys, and the upper triangle of
  // the mask's gradient under is_causal.
  if (problem.queries == 0 || problem.keys == 0 || problem.entries == 0)
    for (Tensor& x : out) zero(x);
  if (problem.queries == 0 || problem.keys == 0 || problem.entries == 0) return;
  const DType dtype = in[1].dtype();
  const bool large = tiles_pay(problem.keys, problem.queries, problem.features);
  visit_factors(dtype, dtype, dtype == DType::f64, large, [&]<class E>(std::type_identity<E>) {
    using T = SumOf<E>;
    const BackwardOperands<T> operands{BatchedMatrix(in[0], problem.batch),
                                       BatchedMatrix(in[5], problem.batch),
                                       in[6].data<T>(),
                                       BlockWriter<T>(out[0]),
                                       BlockWriter<T>(out[1]),
                                       BlockWriter<T>(out[2]),
                                       BlockWriter<T>(out[3]),
                                       attrs.mask_gradient};
    differentiate<E>(problem, operands);
  });
}

}  // namespace mezzo
