#include "position.h"

#include <cmath>

#include "../tensor/ops/create.h"
#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/require.h"
#include "arguments.h"
#include "init.h"

namespace mezzo::nn {

namespace {

void require_table_sizes(std::string_view layer, std::int64_t max_length, std::int64_t dim) {
  detail::require_at_least(1, layer, "max_length", max_length);
  detail::require_at_least(1, layer, "dim", dim);
}

/** Returns the rows of `table` from `first` on. */
Tensor table_rows(std::string_view layer, const Tensor& table, std::int64_t first,
                  std::int64_t steps) {
  if (first < 0 || first > table.size(0) - steps)
    fail<IndexError>(layer, {.what = "positions are out of range",
                             .got = str("steps ", first, "..", first + steps - 1),
                             .expected = str("0..", table.size(0) - 1)});
  const bool all = steps == table.size(0);  // no slice, whose gradient would be a copy
  return all ? table : table.narrow(0, first, steps);
}

/** Returns x plus the rows of `table` that start at `first`. */
Tensor with_positions(std::string_view layer, const Tensor& x, const Tensor& table,
                      std::int64_t first, bool batch_first) {
  require_defined(layer, x);
  if ((x.dim() != 2 && x.dim() != 3) || x.size(-1) != table.size(1))
    fail<ShapeError>(layer,
                     {.what = "the input has the wrong shape",
                      .got = str(x),
                      .expected = str(batch_first ? "[N, T, " : "[T, N, ", table.size(1), "]")});
  const int step_dim = x.dim() == 3 && batch_first ? 1 : 0;
  const Tensor rows = table_rows(layer, table, first, x.size(step_dim)).to(x.dtype());
  return x + (x.dim() == 3 && !batch_first ? rows.unsqueeze(1) : rows);
}

/** Returns the table [length, dim] of sines and cosines. */
Tensor sinusoids(std::int64_t length, std::int64_t dim) {
  const Tensor table = empty({length, dim});
  float* at = table.data<float>();
  for (std::int64_t step = 0; step < length; ++step)
    for (std::int64_t i = 0; i < dim; ++i) {
      const double wave = static_cast<double>(i - i % 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(step) * std::pow(10000.0, -wave);
      *at++ = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return table;
}

}  // namespace

LearnedPositionalEmbedding::LearnedPositionalEmbedding(std::int64_t max_length, std::int64_t dim,
                                                       const PositionOptions& options)
    : options_(options) {
  require_table_sizes(kind(), max_length, dim);
  weight_ = init::normal_(add_parameter("weight", empty({max_length, dim})), 0, 0.02);
  set_summary(str(max_length, ", ", dim));
}

Tensor LearnedPositionalEmbedding::forward(const Tensor& x, std::int64_t first) const {
  return with_positions(kind(), x, weight_, first, options_.batch_first);
}

Tensor LearnedPositionalEmbedding::rows(std::int64_t steps, std::int64_t first) const {
  return table_rows(kind(), weight_, first, steps);
}

SinusoidalPositionalEmbedding::SinusoidalPositionalEmbedding(std::int64_t max_length,
                                                             std::int64_t dim,
                                                             const PositionOptions& options)
    : options_(options) {
  require_table_sizes(kind(), max_length, dim);
  table_ = sinusoids(max_length, dim);
  set_summary(str(max_length, ", ", dim));
}

Tensor SinusoidalPositionalEmbedding::forward(const Tensor& x, std::int64_t first) const {
  require_defined(kind(), x);
  return with_positions(kind(), x, table_.to(x.device()), first, options_.batch_first);
}

}  // namespace mezzo::nn
