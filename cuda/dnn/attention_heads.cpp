// as_heads(): attention operands as batch entries and heads, for cuDNN.
#include "attention_library.h"

#include "../blas/key.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

/** Returns the strides between matrices of a batch, per dimension; 0 where broadcast. */
std::vector<std::int64_t> batch_steps(const Tensor& x, const Shape& batch) {
  std::vector<std::int64_t> steps;
  for (int i = 0; i < batch.rank(); ++i) {
    const int dim = x.dim() - 2 - batch.rank() + i;
    steps.push_back(dim < 0 || x.shape()[dim] == 1 ? 0 : x.strides()[dim]);
  }
  return steps;
}

/** Dimensions [begin, end) of a batch folded into one, if the strides allow it. */
struct Folded {
  std::int64_t count = 1, step = 0;
};
std::optional<Folded> folded(const Shape& batch, const std::vector<std::int64_t>& steps, int begin,
                             int end) {
  Folded f;
  for (int i = end - 1; i >= begin; --i) {
    if (batch[i] == 1) continue;
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    if (f.count == 1) f.step = step;
    if (step != f.step * f.count) return std::nullopt;
    f.count *= batch[i];
  }
  return f;
}

/** Returns the first of the trailing dimensions in [begin, end) over which an operand is
 *  broadcast. */
int broadcast_from(const Shape& batch, const std::vector<std::int64_t>& steps, int begin, int end) {
  while (end > begin && (batch[end - 1] == 1 || steps[static_cast<std::size_t>(end - 1)] == 0))
    --end;
  return end;
}

/** An operand as entries and heads with uniform strides; `first_head` is the first head dimension
 *  of the batch. */
struct Heads {
  std::int64_t entries, heads;
  Attention::Rows rows;
};
std::optional<Heads> heads_of(const Tensor& x, const Shape& batch, int first_head, bool shares) {
  const std::vector<std::int64_t> steps = batch_steps(x, batch);
  const int rank = batch.rank();
  const int end = shares ? broadcast_from(batch, steps, first_head, rank) : rank;
  const auto entries = folded(batch, steps, 0, first_head),
             heads = folded(batch, steps, first_head, end);
  if (!entries || !heads) return std::nullopt;
  const std::int64_t num_rows = x.size(-2), columns = x.size(-1);
  Attention::Rows rows{x.raw_data(), entries->step, heads->step, x.strides()[x.dim() - 2]};
  // An unused stride gets its value for a dense array.
  if (heads->count == 1) rows.head = rows.row * num_rows;
  if (entries->count == 1) rows.entry = rows.head * heads->count;
  const auto fits = [](std::int64_t step) { return step > 0 && step % kPiece == 0; };
  const std::int64_t reach = (entries->count - 1) * rows.entry + (heads->count - 1) * rows.head +
                             (num_rows - 1) * rows.row + columns;
  const bool loads = fits(rows.entry) && fits(rows.head) && fits(rows.row) &&
                     x.strides()[x.dim() - 1] == 1 && alignment(x.raw_data()) >= 16 &&
                     reach <= std::int64_t{0x7FFFFFFF};
  if (!loads) return std::nullopt;
  return Heads{entries->count, heads->count, rows};
}

/** Returns the sizes of a mask's bias, which is broadcast where the mask is; but over queries not
 *  for gradients: the library's backward engine does not broadcast it there, and reads wrong
 *  numbers. */
Attention::Bias bias_of(const Tensor& mask, const Shape& batch, int first_head, const Heads& q,
                        std::int64_t queries, bool backward) {
  const std::vector<std::int64_t> steps = batch_steps(mask, batch);
  const auto varies = [&](int begin, int end) {
    return broadcast_from(batch, steps, begin, end) > begin;
  };
  // A mask may have fewer than two dimensions.
  const bool by_query = mask.dim() > 1 && mask.size(-2) > 1 && mask.strides()[mask.dim() - 2] != 0;
  return {.entries = varies(0, first_head) ? q.entries : 1,
          .heads = varies(first_head, batch.rank()) ? q.heads : 1,
          .queries = by_query || backward ? queries : 1};
}

/** Describes the tensors with dimension `first_head` of the batch as the first of the heads. */
std::optional<Attention> divided_at(int first_head, const Shape& batch, const AttentionTensors& of,
                                    const op::AttentionAttrs& attrs) {
  const bool backward = of.g.defined();
  const auto heads = [&](const Tensor& x, bool shares) {
    return heads_of(x, batch, first_head, shares);
  };
  const auto q = heads(of.q, false), k = heads(of.k, true), v = heads(of.v, true),
             y = heads(of.y, false);
  if (!q || !k || !v || !y || k->heads != v->heads) return std::nullopt;
  Attention a{.wanted = backward ? Attention::Wanted::gradients : Attention::Wanted::y,
              .dtype = of.q.dtype(),
              .entries = q->entries,
              .heads = q->heads,
              .key_heads = k->heads,
              .queries = of.q.size(-2),
              .keys = of.k.size(-2),
              .features = of.q.size(-1),
              .values = of.v.size(-1),
              .is_causal = attrs.is_causal,
              .drops = attrs.dropout_p > 0,
              .keep_probability = 1 - attrs.dropout_p,
              .scale = attrs.scale,
              .q = q->rows,
              .k = k->rows,
              .v = v->rows,
              .y = y->rows};
  if (of.mask.defined()) a.bias = bias_of(of.mask, batch, first_head, *q, a.queries, backward);
  if (!backward) return a;
  const auto g = heads(of.g, false), dq = heads(of.dq, false), dk = heads(of.dk, false),
             dv = heads(of.dv, false);
  if (!g || !dq || !dk || !dv) return std::nullopt;
  a.g = g->rows;
  a.dq = dq->rows;
  a.dk = dk->rows;
  a.dv = dv->rows;
  return a;
}

}  // namespace

std::optional<Attention> as_heads(const AttentionTensors& of, const op::AttentionAttrs& attrs) {
  const Shape batch = op::attention_batch(of.q, of.k, of.v);
  for (int i = 0; i <= batch.rank(); ++i) {
    const int first_head =
        i < batch.rank() ? batch.rank() - 1 - i : batch.rank();  // [entries, heads] first
    if (first_head < 0) continue;
    if (const auto found = divided_at(first_head, batch, of, attrs)) return found;
  }
  return std::nullopt;
}

std::vector<std::int64_t> dnn::Attention::kind() const {
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(wanted),
                                    static_cast<std::int64_t>(dtype),
                                    entries,
                                    heads,
                                    key_heads,
                                    queries,
                                    keys,
                                    features,
                                    values,
                                    is_causal ? 1 : 0,
                                    drops ? 1 : 0,
                                    repeats ? 1 : 0,
                                    bias.entries,
                                    bias.heads,
                                    bias.queries};
  for (const Rows& x : {q, k, v, g, y, dq, dk, dv})
    numbers.insert(numbers.end(), {x.entry, x.head, x.row});
  return numbers;
}

}  // namespace mezzo::gpu
