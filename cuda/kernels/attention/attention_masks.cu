// The CUDA kernels beside cuDNN's attention: the bias for a mask, the mask of dropout, and rows
// without visible keys.
#include "attention_masks.h"

#include "attention.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

/** The bias of a key that a mask hides. It is finite, because cuDNN's softmax of a row of -inf is
 *  nan, and not so low that a softmax in powers of 2 overflows. */
constexpr float kHidden = -1e37f;
/** The logarithm of a row is below this where all its keys are hidden. */
constexpr float kHiddenLogSum = -5e36f;

constexpr int kMaskThreads = 256;

/** Rows of a bias within the whole call. */
struct BiasRows {
  AttentionOperand mask;
  int rank;
  std::int64_t batch[Shape::kMaxRank] = {};  // of the whole call
  std::int64_t first, heads, queries, keys;  // first entry; heads of the call; rows of the bias
  std::int64_t bias_heads, quads_in_row, quads;

  /** Returns the offset of the mask's row. */
  __device__ std::int64_t offset_of(std::int64_t row) const {
    const std::int64_t matrix = row / queries,
                       entry = (first + matrix / bias_heads) * heads + matrix % bias_heads;
    return mask.offset(entry, rank, batch) + row % queries * mask.row;
  }
  __device__ float bias(std::int64_t offset, std::int64_t key) const {
    if (key >= keys) return 0;
    const float x = mask.load<float>(offset, 0, key);
    if (mask.dtype == DType::boolean) return x == 0.0f ? kHidden : 0.0f;
    return x == -std::numeric_limits<float>::infinity() ? kHidden : bounded(x);
  }
};

/** A thread writes four numbers. */
__global__ void __launch_bounds__(kMaskThreads)
    bias_kernel(const BiasRows __grid_constant__ rows, Pack<float, 4>* bias) {
  const std::int64_t quad = blockIdx.x * std::int64_t{kMaskThreads} + threadIdx.x;
  if (quad >= rows.quads) return;
  const std::int64_t offset = rows.offset_of(quad / rows.quads_in_row),
                     key = quad % rows.quads_in_row * 4;
  Pack<float, 4> numbers;
#pragma unroll
  for (int i = 0; i < 4; ++i) numbers.item[i] = rows.bias(offset, key + i);
  bias[quad] = numbers;
}

/** Eight bits for whether dropout keeps elements [at, at + 8). */
__device__ unsigned kept_bits(const PhiloxStream& stream, std::uint64_t threshold,
                              std::uint64_t at) {
  const auto shift = static_cast<unsigned>(at % 4);
  unsigned bits = 0;
#pragma unroll
  for (unsigned block = 0; block < 3; ++block) {
    if (block == 2 && shift == 0) break;
    const auto drawn = philox_block(stream, at / 4 + block);
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      bits |= (bernoulli(drawn.word[k], threshold) ? 1u : 0u) << (4 * block + k);
  }
  return bits >> shift;
}

/** A thread writes eight numbers of a row. */
__global__ void __launch_bounds__(kMaskThreads)
    kept_kernel(const PhiloxStream base, std::uint64_t threshold, std::uint16_t one,
                std::int64_t first_row, std::int64_t keys, std::int64_t eights_in_row,
                std::int64_t eights, Pack<std::uint16_t, 8>* kept) {
  const std::int64_t eight = blockIdx.x * std::int64_t{kMaskThreads} + threadIdx.x;
  if (eight >= eights) return;
  const std::int64_t row = first_row + eight / eights_in_row, key = eight % eights_in_row * 8;
  const unsigned bits =
      kept_bits(base.resolved(), threshold, static_cast<std::uint64_t>(row * keys + key));
  Pack<std::uint16_t, 8> numbers;
#pragma unroll
  for (int i = 0; i < 8; ++i) numbers.item[i] = bits >> i & 1 ? one : std::uint16_t{0};
  kept[eight] = numbers;
}

/** Rows of y. */
struct ResultRows {
  std::uint16_t* y;
  std::int64_t entry, head, row;  // strides
  std::int64_t heads, queries, values, count;
};

/** A thread looks at one row. */
__global__ void __launch_bounds__(kMaskThreads)
    clear_kernel(const ResultRows __grid_constant__ rows, float* log_sums) {
  const std::int64_t i = blockIdx.x * std::int64_t{kMaskThreads} + threadIdx.x;
  if (i >= rows.count || !(log_sums[i] < kHiddenLogSum)) return;
  log_sums[i] = std::numeric_limits<float>::infinity();
  std::uint16_t* const y = rows.y + i / rows.queries / rows.heads * rows.entry +
                           i / rows.queries % rows.heads * rows.head + i % rows.queries * rows.row;
  for (std::int64_t j = 0; j < rows.values; ++j) y[j] = 0;
}

}  // namespace

Tensor bias_for_mask(const Attention& a, const Tensor& mask, const Shape& batch,
                     std::int64_t first) {
  BiasRows rows{.mask = AttentionOperand(mask, batch),
                .rank = batch.rank(),
                .first = first,
                .heads = a.heads,
                .queries = a.bias.queries,
                .keys = a.keys,
                .bias_heads = a.bias.heads,
                .quads_in_row = a.pitch() / 4,
                .quads = a.bias_bytes() / 16};
  for (int i = 0; i < batch.rank(); ++i) rows.batch[i] = batch[i];
  const Tensor bias = workspace(a.bias_bytes(), mask.device());
  launch(&bias_kernel, {.blocks = blocks_for(rows.quads, kMaskThreads), .threads = kMaskThreads},
         current_stream(mask.device()), rows, static_cast<Pack<float, 4>*>(bias.raw_data()));
  return bias;
}

namespace {

/** Returns the bits of the number 1 in a 16-bit dtype. */
std::uint16_t bits_of_one(DType dtype) {
  switch (dtype) {
    case DType::f16: return Half(1.0f).bits;
    case DType::bf16: return BFloat16(1.0f).bits;
    case DType::f32:
    case DType::f64:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  return 0;
}

}  // namespace

Tensor kept_probabilities(const Attention& a, const PhiloxStream& stream, std::int64_t first,
                          Device device) {
  const std::int64_t rows = a.heads * a.queries, eights_in_row = a.pitch() / 8,
                     eights = a.entries * rows * eights_in_row;
  const Tensor kept = workspace(eights * 16, device);
  const std::uint16_t one = bits_of_one(a.dtype);
  launch(&kept_kernel, {.blocks = blocks_for(eights, kMaskThreads), .threads = kMaskThreads},
         current_stream(device), stream, bernoulli_threshold(a.keep_probability), one, first * rows,
         a.keys, eights_in_row, eights, static_cast<Pack<std::uint16_t, 8>*>(kept.raw_data()));
  return kept;
}

void clear_hidden_rows(const Attention& a, Device device) {
  const ResultRows rows{.y = static_cast<std::uint16_t*>(const_cast<void*>(a.y.data)),
                        .entry = a.y.entry,
                        .head = a.y.head,
                        .row = a.y.row,
                        .heads = a.heads,
                        .queries = a.queries,
                        .values = a.values,
                        .count = a.entries * a.heads * a.queries};
  launch(&clear_kernel, {.blocks = blocks_for(rows.count, kMaskThreads), .threads = kMaskThreads},
         current_stream(device), rows, static_cast<float*>(const_cast<void*>(a.log_sums)));
}

}  // namespace mezzo::gpu
