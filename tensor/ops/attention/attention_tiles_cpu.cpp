#include "attention_tiles_cpu.h"

#include <limits>

namespace mezzo::cpu_kernels {

BatchedMatrix::BatchedMatrix(const Tensor& x, const Shape& batch) {
  if (!x.defined()) return;
  // A mask may have fewer than two dimensions; missing ones have stride 0.
  const int rank = x.dim();
  const auto stride = [&](int from_last) {
    const int dim = rank - 1 - from_last;
    return dim < 0 || x.shape()[dim] == 1 ? 0 : x.strides()[dim];
  };
  defined_ = true;
  matrix_ = {x.raw_data(), x.dtype(), stride(1), stride(0)};
  batch_ = batch;
  strides_ = Strides::filled(batch.rank(), 0);
  for (int i = 0; i < batch.rank(); ++i)
    strides_[i] = stride(batch.rank() + 1 - i) * static_cast<std::int64_t>(item_size(x.dtype()));
}

Matrix BatchedMatrix::at(std::int64_t entry) const {
  std::int64_t offset = 0;
  for (int i = batch_.rank() - 1; i >= 0; --i) {
    offset += entry % batch_[i] * strides_[i];
    entry /= batch_[i];
  }
  Matrix x = matrix_;
  x.data = static_cast<const char*>(matrix_.data) + offset;
  return x;
}

AttentionProblem::AttentionProblem(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const Tensor& given_mask, const op::AttentionAttrs& attributes)
    : batch(op::attention_batch(query, key, value)),
      queries(query.size(-2)),
      keys(key.size(-2)),
      features(query.size(-1)),
      values(value.size(-1)),
      q(query, batch),
      k(key, batch),
      v(value, batch),
      mask(given_mask, batch),
      attrs(attributes) {
  for (const std::int64_t size : batch) entries *= size;
}

namespace {

template <class T> constexpr T kMasked = -std::numeric_limits<T>::infinity();

template <class T>
void apply_bool_mask(const Matrix& mask, const Strip& strip, std::int64_t rows, T* scores) {
  const std::int64_t width = strip.width<T>();
  for (std::int64_t lane = 0; lane < strip.valid; ++lane) {
    const auto* allowed = static_cast<const unsigned char*>(mask.data) + lane * mask.row;
    for (std::int64_t s = 0; s < rows; ++s)
      if (allowed[s * mask.column] == 0) scores[s * width + lane] = kMasked<T>;
  }
}

}  // namespace

template <class T>
void apply_mask(const AttentionProblem& problem, const Strip& strip, std::int64_t first_key,
                std::int64_t rows, T* scores, T* room) {
  const std::int64_t width = strip.width<T>();
  if (problem.attrs.is_causal) {
    // Query number first + lane attends to the keys up to its own number.
    for (std::int64_t s = std::max<std::int64_t>(0, strip.first + 1 - first_key); s < rows; ++s)
      std::fill_n(scores + s * width, std::min(width, first_key + s - strip.first), kMasked<T>);
    return;
  }
  if (!problem.mask.defined()) return;
  const Matrix mask = part(problem.mask.at(strip.entry), strip.first, first_key);
  if (mask.dtype == DType::boolean) return apply_bool_mask(mask, strip, rows, scores);
  pack_panel(mask, strip.valid, rows, PackedPanel(room, width));
  for (std::int64_t i = 0; i < rows * width; ++i) scores[i] += room[i];
}

template <class T>
void dropout_factors(const AttentionProblem& problem, const Strip& strip, std::int64_t first_key,
                     std::int64_t rows, T* factors) {
  const double p = problem.attrs.dropout_p;
  const std::uint64_t threshold = bernoulli_threshold(1 - p);
  const T kept = p < 1 ? static_cast<T>(1 / (1 - p)) : T(0);
  const std::int64_t width = strip.width<T>();
  std::fill_n(factors, rows * width, T(0));
  for (std::int64_t lane = 0; lane < strip.valid; ++lane) {
    const auto first = static_cast<std::uint64_t>(
        (strip.entry * problem.queries + strip.first + lane) * problem.keys + first_key);
    PhiloxBlock words = philox_block(problem.attrs.stream, first / 4);
    for (std::int64_t s = 0; s < rows; ++s) {
      const std::uint64_t element = first + static_cast<std::uint64_t>(s);
      if (element % 4 == 0) words = philox_block(problem.attrs.stream, element / 4);
      if (bernoulli(words.word[element % 4], threshold)) factors[s * width + lane] = kept;
    }
  }
}

template void apply_mask(const AttentionProblem&, const Strip&, std::int64_t, std::int64_t, float*,
                         float*);
template void apply_mask(const AttentionProblem&, const Strip&, std::int64_t, std::int64_t, double*,
                         double*);
template void dropout_factors(const AttentionProblem&, const Strip&, std::int64_t, std::int64_t,
                              float*);
template void dropout_factors(const AttentionProblem&, const Strip&, std::int64_t, std::int64_t,
                              double*);

}  // namespace mezzo::cpu_kernels
