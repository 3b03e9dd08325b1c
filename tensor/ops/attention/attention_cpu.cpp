// Kernel of attention. It iterates over blocks of keys; each strip of queries holds its maximum,
// the sum of its exponentials, and its weighted values. Method: Milakov, Gimelshein, Online
// normalizer calculation for softmax (2018); Dao et al., FlashAttention (2022).
#include "attention.h"

#include <limits>

#include "../../cpu/block_io.h"
#include "../../device/parallel.h"
#include "../../math/math.h"
#include "attention_tiles_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** The running state of a strip, one value per lane, and its accumulated values [value][lane]. */
template <class T> struct StripState {
  T max[RegisterBlock<T>::kColumns], sum[RegisterBlock<T>::kColumns];
  T* values;
};

/** Updates the lanes' maxima with new scores. */
template <class T, int kVectors> void raise_max(const T* scores, std::int64_t rows, T* max) {
  using S = Simd<T>;
  typename S::V top[kVectors];
  MZ_UNROLL
  for (int j = 0; j < kVectors; ++j) top[j] = S::load(max + j * S::kWidth);
  for (std::int64_t s = 0; s < rows; ++s) {
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const typename S::V x = S::load(scores + (s * kVectors + j) * S::kWidth);
      top[j] = x > top[j] ? x : top[j];
    }
  }
  MZ_UNROLL
  for (int j = 0; j < kVectors; ++j) S::store(max + j * S::kWidth, top[j]);
}

template <class T, int kVectors> void add_rows(const T* x, std::int64_t rows, T* sum) {
  using S = Simd<T>;
  typename S::V total[kVectors];
  MZ_UNROLL
  for (int j = 0; j < kVectors; ++j) total[j] = S::load(sum + j * S::kWidth);
  for (std::int64_t s = 0; s < rows; ++s) {
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) total[j] += S::load(x + (s * kVectors + j) * S::kWidth);
  }
  MZ_UNROLL
  for (int j = 0; j < kVectors; ++j) S::store(sum + j * S::kWidth, total[j]);
}

/** Replaces scores by exp(score - max) and rescales the strip's earlier sums to the new maximum. */
template <class T, int kVectors>
void take_block(T* scores, std::int64_t rows, std::int64_t num_values, bool first,
                StripState<T>& state) {
  constexpr int kWidth = kVectors * Simd<T>::kWidth;
  T before[kWidth], shift[kWidth];
  std::copy_n(state.max, kWidth, before);
  raise_max<T, kVectors>(scores, rows, state.max);
  for (int lane = 0; lane < kWidth; ++lane)
    shift[lane] = state.max[lane] == -std::numeric_limits<T>::infinity() ? T(0) : state.max[lane];
  for (std::int64_t s = 0; s < rows; ++s)
    for (int lane = 0; lane < kWidth; ++lane)
      scores[s * kWidth + lane] = math::exp(scores[s * kWidth + lane] - shift[lane]);
  if (!first) {
    T factor[kWidth];
    for (int lane = 0; lane < kWidth; ++lane) factor[lane] = math::exp(before[lane] - shift[lane]);
    for (int lane = 0; lane < kWidth; ++lane) state.sum[lane] *= factor[lane];
    for (std::int64_t e = 0; e < num_values; ++e)
      for (int lane = 0; lane < kWidth; ++lane) state.values[e * kWidth + lane] *= factor[lane];
  }
  add_rows<T, kVectors>(scores, rows, state.sum);
}

/** Computes the queries [begin, end) of one batch entry. */
template <class E> class Chunk {
  using T = SumOf<E>;

 public:
  Chunk(const AttentionProblem& problem, std::int64_t entry, std::int64_t begin, std::int64_t end)
      : problem_(problem),
        entry_(entry),
        begin_(begin),
        end_(end),
        queries_(strips() * query_size()),
        values_(strips() * problem.values * kWidth),
        states_(strips()),
        scores_(2 * (kKeyBlock + RegisterBlock<T>::kRows) * kWidth),
        probabilities_(kRounds<E> ? steps_of<E>(kKeyBlock) * kWidth : 0),
        keys_(kKeyBlock, problem.features),
        key_values_(problem.values, kKeyBlock) {
    const Matrix q = problem.q.at(entry);
    for (std::int64_t i = 0; i < strips(); ++i) {
      pack_strip(q, strip(i), problem.features, query(i));
      if constexpr (!kRounds<E>) multiply(query(i), query_size(), scale());
      StripState<T>& state = states_.data()[i];
      std::fill_n(state.max, kWidth, -std::numeric_limits<T>::infinity());
      std::fill_n(state.sum, kWidth, T(0));
      state.values = values_.data() + i * problem.values * kWidth;
      std::fill_n(state.values, problem.values * kWidth, T(0));
    }
  }

  void run(const BlockWriter<T>& y, T* log_sums) {
    for (std::int64_t first = 0; first < problem_.keys; first += kKeyBlock) {
      const std::int64_t rows =
          problem_.visible(first, std::min(kKeyBlock, problem_.keys - first), end_);
      if (rows <= 0) break;
      keys_.set(part(problem_.k.at(entry_), first, 0), rows, problem_.features);
      key_values_.set(part(problem_.v.at(entry_), first, 0).transposed(), problem_.values, rows);
      for (std::int64_t i = 0; i < strips(); ++i) add_keys(i, first, rows);
    }
    for (std::int64_t i = 0; i < strips(); ++i) finish(i, y, log_sums);
  }

 private:
  static constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;

  T scale() const { return static_cast<T>(problem_.attrs.scale); }
  std::int64_t strips() const { return ceil_div(end_ - begin_, kWidth); }
  Strip strip(std::int64_t i) const { return strip_of<E>(entry_, begin_ + i * kWidth, end_); }
  std::int64_t query_size() const { return steps_of<E>(problem_.features) * kWidth; }
  E* query(std::int64_t i) const { return queries_.data() + i * query_size(); }

  void add_keys(std::int64_t i, std::int64_t first, std::int64_t block_rows) {
    const Strip lanes = strip(i);
    const std::int64_t rows = problem_.visible(first, block_rows, lanes.end());
    if (rows <= 0) return;
    T* scores = scores_.data();
    T* room = scores + (kKeyBlock + RegisterBlock<T>::kRows) * kWidth;
    keys_.multiply(query(i), lanes.vectors, rows, problem_.features, scores, false);
    // Numbers are multiplied with the scale in the queries; in bf16 these would be rounded.
    if constexpr (kRounds<E>) multiply(scores, rows * lanes.width<E>(), scale());
    apply_mask(problem_, lanes, first, rows, scores, room);
    StripState<T>& state = states_.data()[i];
    visit_vectors(lanes.vectors, [&]<int kVectors>(std::integral_constant<int, kVectors>) {
      take_block<T, kVectors>(scores, rows, problem_.values, first == 0, state);
    });
    if (problem_.attrs.dropout_p > 0) {
      dropout_factors(problem_, lanes, first, rows, room);
      for (std::int64_t e = 0; e < rows * lanes.width<E>(); ++e) scores[e] *= room[e];
    }
    const E* weights = right_operand(scores, rows, lanes.width<E>(), probabilities_.data());
    key_values_.multiply(weights, lanes.vectors, problem_.values, rows, state.values, true);
  }

  void finish(std::int64_t i, const BlockWriter<T>& y, T* log_sums) const {
    const Strip lanes = strip(i);
    const std::int64_t width = lanes.width<E>(), n = problem_.values;
    const StripState<T>& state = states_.data()[i];
    Scratch<T> row(n);
    for (std::int64_t lane = 0; lane < lanes.valid; ++lane) {
      const T sum = state.sum[lane];
      const std::int64_t at = entry_ * problem_.queries + lanes.first + lane;
      // A row without visible keys gives 0; the +inf makes its probabilities 0 in the backward
      // pass.
      log_sums[at] =
          sum == 0 ? std::numeric_limits<T>::infinity() : state.max[lane] + math::log(sum);
      T* to = y.target(at * n, row.data());
      for (std::int64_t e = 0; e < n; ++e)
        to[e] = sum == 0 ? T(0) : state.values[e * width + lane] / sum;
      y.write(at * n, n, to);
    }
  }

  const AttentionProblem& problem_;
  std::int64_t entry_, begin_, end_;
  Workspace<E> queries_;
  Workspace<T> values_;
  Workspace<StripState<T>> states_;
  Workspace<T> scores_;
  Workspace<E> probabilities_;
  RowOperand<E> keys_, key_values_;
};

/** Estimated cost of one multiply-add, for the decision whether to use several threads. */
constexpr double kMultiplyAddNs = 0.03;

template <class E> void attend(const AttentionProblem& problem, Outputs out) {
  using T = SumOf<E>;
  const BlockWriter<T> y(out[0]);
  const std::int64_t chunks = ceil_div(problem.queries, kQueryChunk);
  const double work = static_cast<double>(problem.entries * problem.queries) *
                      static_cast<double>(problem.keys * (problem.features + problem.values));
  parallel_for(
      problem.entries * chunks,
      [&](std::int64_t task) {
        const std::int64_t begin = task % chunks * kQueryChunk;
        Chunk<E>(problem, task / chunks, begin, std::min(begin + kQueryChunk, problem.queries))
            .run(y, out[1].data<T>());
      },
      work * kMultiplyAddNs);
}

}  // namespace

void op::Attention::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const AttentionProblem problem(in[0], in[1], in[2], in[3], attrs);
  if (out[1].numel() == 0) return;
  const DType dtype = in[0].dtype();
  const bool large = tiles_pay(problem.keys, problem.queries, problem.features);
  visit_factors(dtype, dtype, dtype == DType::f64, large,
                [&]<class E>(std::type_identity<E>) { attend<E>(problem, out); });
}

}  // namespace mezzo
