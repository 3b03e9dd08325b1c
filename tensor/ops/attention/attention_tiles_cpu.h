// Building blocks of the attention kernels: operands per batch entry, panels of keys, strips of
// queries.
//
// Scores are computed transposed. A strip is a group of queries as wide as one register block; its
// scores against a block of keys are stored as [key][query]. The matrix kernels read their right
// operand in this layout, so the probabilities are used in the next product without packing. The
// softmax of all queries of a strip runs in parallel in the vector lanes.
#pragma once

#include "../../cpu/gemm_pack.h"
#include "../../cpu/gemm_panels.h"
#include "../../cpu/gemm_tile.h"
#include "../../cpu/workspace.h"
#include "../../random/philox.h"
#include "attention.h"

namespace mezzo::cpu_kernels {

/** Keys per block; the panels of a block and the scores of a strip fit the L2 cache. */
inline constexpr std::int64_t kKeyBlock = 256;

/** Queries per task of the forward pass. */
inline constexpr std::int64_t kQueryChunk = 256;

/** A tensor's last two dimensions as a matrix, with its address for each entry of the batch. */
class BatchedMatrix {
 public:
  BatchedMatrix() = default;
  BatchedMatrix(const Tensor& x, const Shape& batch);
  bool defined() const { return matrix_.data != nullptr || defined_; }
  Matrix at(std::int64_t entry) const;

 private:
  Matrix matrix_;
  Shape batch_;
  Strides strides_;  // of the batch dimensions, in bytes; 0 if broadcast
  bool defined_ = false;
};

/** Returns the part of a matrix that starts at the given element. */
inline Matrix part(const Matrix& x, std::int64_t row, std::int64_t column) {
  Matrix rest = x;
  rest.data = static_cast<const char*>(x.data) +
              (row * x.row + column * x.column) * static_cast<std::int64_t>(item_size(x.dtype));
  return rest;
}

/** Sizes and operands of one call. */
struct AttentionProblem {
  AttentionProblem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                   const op::AttentionAttrs& attributes);

  Shape batch;
  std::int64_t entries = 1, queries, keys, features, values;
  BatchedMatrix q, k, v, mask;
  op::AttentionAttrs attrs;

  /** Returns how many keys of the block that begins at `first_key` are visible to the queries
   *  before `end_query`. */
  std::int64_t visible(std::int64_t first_key, std::int64_t num_keys,
                       std::int64_t end_query) const {
    return attrs.is_causal ? std::min(num_keys, end_query - first_key) : num_keys;
  }
};

/** The left operand of a product: the rows of a matrix in panels. The panels are packed unless the
 *  matrix can be read in place. */
template <class E> class RowOperand {
 public:
  RowOperand(std::int64_t max_rows, std::int64_t max_terms)
      : room_((max_rows + RegisterBlock<E>::kRows) *
              std::max<std::int64_t>(steps_of<E>(max_terms), 1)),
        panels_(0) {}

  void set(const Matrix& x, std::int64_t rows, std::int64_t terms) {
    panels_ = RowPanels<E>(rows);
    if (fast_in_place<E>(x, terms)) {
      panels_at_ = panels_in_place<E>(x, panels_.height, 0);
      return;
    }
    const std::int64_t size = panels_.height * steps_of<E>(terms);
    panels_at_ = {room_.data(), 0, size, 0};
    for (std::int64_t p = 0; p < panels_.count; ++p)
      pack_row_panel(part(x, p * panels_.height, 0), panels_.height_of(p), terms,
                     PackedPanel(room_.data() + p * size, panels_.height_of(p)));
  }

  /** Computes c[row][lane] = (or +=) the sum over the first `terms` terms of x(row, term) *
   *  b(term, lane), for at least the first `rows` rows. */
  void multiply(const E* b, int vectors, std::int64_t rows, std::int64_t terms, SumOf<E>* c,
                bool accumulate) const {
    const std::int64_t width = vectors * RegisterBlock<E>::kLanes;
    const TileScope<E> scope;
    for (std::int64_t p = 0; p * panels_.height < rows; ++p) {
      const int height = panels_.height_of(p);
      multiply_block<E>(height, vectors, steps_of<E>(terms), panels_at_.rows_of(p, height),
                        {b, width}, c + p * panels_.height * width, width, accumulate);
    }
  }

 private:
  Workspace<E> room_;
  RowPanels<E> panels_;
  Panels<E> panels_at_ = {};
};

/** Returns the terms x[term][lane] as the right operand of a product: x itself, or rounded terms,
 *  which are written to `room`. */
template <class E>
const E* right_operand(const SumOf<E>* x, std::int64_t terms, std::int64_t width, E* room) {
  if constexpr (!kRounds<E>) {
    return x;
  } else {
    pack_column_panel<E>({x, dtype_of<SumOf<E>>(), 1, width}, width, terms,
                         PackedPanel(room, width));
    return room;
  }
}

/** A strip of queries: lanes [0, valid) hold queries, the values in other lanes are ignored. */
struct Strip {
  std::int64_t entry, first, valid;
  int vectors;

  template <class E> std::int64_t width() const { return vectors * RegisterBlock<E>::kLanes; }
  std::int64_t end() const { return first + valid; }
};

template <class E> Strip strip_of(std::int64_t entry, std::int64_t begin, std::int64_t end) {
  const std::int64_t valid = std::min<std::int64_t>(RegisterBlock<E>::kColumns, end - begin);
  return {entry, begin, valid, static_cast<int>(ceil_div(valid, RegisterBlock<E>::kLanes))};
}

/** Packs rows [strip.first, strip.end()) of a matrix into lanes: to(column, lane). */
template <class E>
void pack_strip(const Matrix& x, const Strip& strip, std::int64_t columns, E* to) {
  pack_column_panel(part(x, strip.first, 0), strip.valid, columns,
                    PackedPanel(to, strip.width<E>()));
}

template <class T> void multiply(T* x, std::int64_t n, T factor) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

/** Adds the mask to the scores [key][lane] of `rows` keys from `first_key` on; masked keys get
 *  -inf. `room` is a workspace of the same size. */
template <class T>
void apply_mask(const AttentionProblem& problem, const Strip& strip, std::int64_t first_key,
                std::int64_t rows, T* scores, T* room);

/** Writes the dropout factors of the probabilities: 0 or 1 / (1 - p). */
template <class T>
void dropout_factors(const AttentionProblem& problem, const Strip& strip, std::int64_t first_key,
                     std::int64_t rows, T* factors);

/** Calls f(std::integral_constant<int, vectors>) for 1 or 2 vectors. */
template <class F> void visit_vectors(int vectors, F&& f) {
  if (vectors == 1)
    f(std::integral_constant<int, 1>{});
  else
    f(std::integral_constant<int, 2>{});
}

}  // namespace mezzo::cpu_kernels
