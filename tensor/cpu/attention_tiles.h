// What the attention kernels are made of: operands per batch entry, panels of keys, strips of queries.
// Sees: gemm_pack.h, gemm_panels.h, ../ops/attention.h.
// Read next: attention.cpp, attention_backward.cpp.
//
// Scores are computed transposed: a strip is one register block's width of queries, and its scores against a block of keys lie as
// [key][query]. That is how the matrix kernels read their right operand, so probabilities go into the next product as they are, and the
// softmax of all queries of a strip runs side by side in the lanes of vectors.
#pragma once

#include "../ops/attention.h"
#include "../philox.h"
#include "gemm_pack.h"
#include "gemm_panels.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

/** Keys of one block: its panels and a strip's scores stay in the second-level cache. */
inline constexpr std::int64_t kKeyBlock = 256;

/** Queries that one task of the forward pass works on. */
inline constexpr std::int64_t kQueryChunk = 256;

/** A tensor's last two dimensions as a matrix, and where it lies for each entry of the batch. */
class BatchedMatrix {
 public:
  BatchedMatrix() = default;
  BatchedMatrix(const Tensor& x, const Shape& batch);
  bool defined() const { return matrix_.data != nullptr || defined_; }
  Matrix at(std::int64_t entry) const;

 private:
  Matrix matrix_;
  Shape batch_;
  Strides strides_;  // in bytes over the batch, 0 where broadcast
  bool defined_ = false;
};

/** The part of a matrix from one of its elements on. */
inline Matrix part(const Matrix& x, std::int64_t row, std::int64_t column) {
  Matrix rest = x;
  rest.data = static_cast<const char*>(x.data) +
              (row * x.row + column * x.column) * static_cast<std::int64_t>(item_size(x.dtype));
  return rest;
}

/** Sizes and operands of a call. */
struct AttentionProblem {
  AttentionProblem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                   const op::AttentionAttrs& attributes);

  Shape batch;
  std::int64_t entries = 1, queries, keys, features, values;
  BatchedMatrix q, k, v, mask;
  op::AttentionAttrs attrs;

  /** How many keys of a block that begins at `first_key` the queries before `end_query` may see. */
  std::int64_t visible(std::int64_t first_key, std::int64_t num_keys, std::int64_t end_query) const {
    return attrs.is_causal ? std::min(num_keys, end_query - first_key) : num_keys;
  }
};

/** The left operand of a product: the rows of a matrix in panels, packed where they cannot be read as they lie. */
template <class T> class RowOperand {
 public:
  RowOperand(std::int64_t max_rows, std::int64_t max_depth)
      : room_((max_rows + RegisterBlock<T>::kRows) * std::max<std::int64_t>(max_depth, 1)), panels_(0) {}

  void set(const Matrix& x, std::int64_t rows, std::int64_t depth) {
    panels_ = RowPanels<T>(rows);
    if (reads_well<T>(x)) {
      panels_at_ = {static_cast<const T*>(x.data), 0, panels_.height * x.row, 0, x.row, x.column};
      return;
    }
    panels_at_ = {room_.data(), 0, panels_.height * depth, 0};
    for (std::int64_t p = 0; p < panels_.count; ++p)
      pack_panel(part(x, p * panels_.height, 0), panels_.height_of(p), depth, panels_.height_of(p),
                 room_.data() + p * panels_.height * depth);
  }

  /** c[row][lane] = (or +=) the sum over the first `depth` steps of x(row, step) b[step][lane], for at least the first `rows` rows. */
  void multiply(const T* b, int vectors, std::int64_t rows, std::int64_t depth, T* c, bool accumulate) const {
    const std::int64_t width = vectors * Simd<T>::kWidth;
    for (std::int64_t p = 0; p * panels_.height < rows; ++p) {
      const int height = panels_.height_of(p);
      multiply_block<T>(height, vectors, depth, panels_at_.rows_of(p, height), {b, width},
                        c + p * panels_.height * width, width, accumulate);
    }
  }

 private:
  Workspace<T> room_;
  RowPanels<T> panels_;
  Panels<T> panels_at_ = {};
};

/** A strip of queries: lanes [0, valid) hold queries, the others nothing that counts. */
struct Strip {
  std::int64_t entry, first, valid;
  int vectors;

  template <class T> std::int64_t width() const { return vectors * Simd<T>::kWidth; }
  std::int64_t end() const { return first + valid; }
};

template <class T> Strip strip_of(std::int64_t entry, std::int64_t begin, std::int64_t end) {
  const std::int64_t valid = std::min<std::int64_t>(RegisterBlock<T>::kColumns, end - begin);
  return {entry, begin, valid, static_cast<int>(ceil_div(valid, Simd<T>::kWidth))};
}

/** Brings rows [strip.first, strip.end()) of a matrix into lanes: to[column][lane]. */
template <class T> void pack_strip(const Matrix& x, const Strip& strip, std::int64_t columns, T* to) {
  pack_panel(part(x, strip.first, 0), strip.valid, columns, strip.width<T>(), to);
}

/** Adds the mask to scores [key][lane] of `rows` keys from `first_key` on; keys that are not to be seen get -inf. `room` is as large as they. */
template <class T>
void apply_mask(const AttentionProblem& problem, const Strip& strip, std::int64_t first_key,
                std::int64_t rows, T* scores, T* room);

/** Writes what dropout multiplies the probabilities with: 0 or 1 / (1 - p). */
template <class T>
void dropout_factors(const AttentionProblem& problem, const Strip& strip, std::int64_t first_key,
                     std::int64_t rows, T* factors);

/** Calls f(std::integral_constant<int, vectors>). */
template <class F> void visit_vectors(int vectors, F&& f) {
  if (vectors == 1)
    f(std::integral_constant<int, 1>{});
  else
    f(std::integral_constant<int, 2>{});
}

}  // namespace mezzo::cpu_kernels
