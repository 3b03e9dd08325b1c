// Kernels of the random ops. Element i depends on seed, draw and i alone, so threads and chunks change nothing.
#include "../ops/random.h"

#include <algorithm>
#include <cmath>

#include "../parallel.h"
#include "block_map.h"
#include "convert.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Four values of one block for elements of up to 32 bits. */
using Quad = std::array<float, 4>;
/** Two values of one block for f64. */
using Pair = std::array<double, 2>;

/** Writes values(block) for the blocks of elements [begin, end); begin is a multiple of the values in a block. */
template <class V, class F> void fill_blocks(V* to, std::int64_t begin, std::int64_t end, F&& values) {
  const auto per_block = static_cast<std::int64_t>(values(0).size());
  for (std::int64_t i = begin; i < end; i += per_block) {
    const auto block = values(static_cast<std::uint64_t>(i / per_block));
    std::copy_n(block.begin(), std::min(per_block, end - i), to + (i - begin));
  }
}

/** Fills a tensor of any dtype and strides: `values` are made in V, block by block, and rounded once. */
template <class V, class F> void fill_random(Tensor& out, F&& values) {
  Tensor flat = out.is_contiguous() ? out : empty_tensor(out.shape(), out.dtype(), mezzo::cpu);
  char* data = static_cast<char*>(flat.raw_data());
  const auto item = static_cast<std::int64_t>(item_size(out.dtype()));
  parallel_chunks(
      out.numel(), kElementwiseChunk,
      [&](std::int64_t begin, std::int64_t end) {
        V buffer[kBlock];
        for (std::int64_t at = begin; at < end; at += kBlock) {
          const std::int64_t n = std::min(kBlock, end - at);
          fill_blocks(buffer, at, at + n, values);
          convert(dtype_of<V>(), buffer, out.dtype(), data + at * item, n);
        }
      },
      4.0);
  if (!flat.is_same(out)) out.copy_(flat);
}

Quad uniform_quad(PhiloxStream stream, std::uint64_t block) {
  const PhiloxBlock words = philox_block(stream, block);
  Quad values;
  for (std::size_t k = 0; k < 4; ++k) values[k] = uniform_f32(words.word[k]);
  return values;
}

Pair uniform_pair(PhiloxStream stream, std::uint64_t block) {
  const PhiloxBlock words = philox_block(stream, block);
  return {uniform_f64(words.word[0], words.word[1]), uniform_f64(words.word[2], words.word[3])};
}

/** Rounding may lift a value onto the excluded upper end; it belongs just below. */
template <class V> V scaled_uniform(V u, V low, V high) {
  const V value = low + u * (high - low);
  return value < high ? value : std::max(low, std::nextafter(high, low));
}

}  // namespace

namespace op {

void Bernoulli::cpu(Inputs, Outputs out, const Attrs& attrs) {
  const std::uint64_t threshold = bernoulli_threshold(attrs.a);
  fill_random<float>(out[0], [&](std::uint64_t block) {
    const PhiloxBlock words = philox_block(attrs.stream, block);
    Quad values;
    for (std::size_t k = 0; k < 4; ++k) values[k] = bernoulli(words.word[k], threshold) ? 1.0f : 0.0f;
    return values;
  });
}

void Normal::cpu(Inputs, Outputs out, const Attrs& attrs) {
  if (out[0].dtype() == DType::f64)
    return fill_random<double>(out[0], [&](std::uint64_t block) {
      const NormalPair z = normal_pair(philox_block(attrs.stream, block));
      return Pair{attrs.a + attrs.b * z.first, attrs.a + attrs.b * z.second};
    });
  fill_random<float>(out[0], [&](std::uint64_t block) {
    const PhiloxBlock words = philox_block(attrs.stream, block);
    const NormalPair x = normal_pair(words.word[0], words.word[1]),
                     y = normal_pair(words.word[2], words.word[3]);
    const auto value = [&](double z) { return static_cast<float>(attrs.a + attrs.b * z); };
    return Quad{value(x.first), value(x.second), value(y.first), value(y.second)};
  });
}

void Randint::cpu(Inputs, Outputs out, const Attrs& attrs) {
  const auto low = static_cast<std::int64_t>(attrs.a);
  const auto count = static_cast<std::uint64_t>(static_cast<std::int64_t>(attrs.b) - low);
  fill_random<std::int64_t>(out[0], [&](std::uint64_t block) {
    const PhiloxBlock w = philox_block(attrs.stream, block);
    return std::array<std::int64_t, 2>{
        low + static_cast<std::int64_t>(uniform_below(count, w.word[0], w.word[1])),
        low + static_cast<std::int64_t>(uniform_below(count, w.word[2], w.word[3]))};
  });
}

void Uniform::cpu(Inputs, Outputs out, const Attrs& attrs) {
  if (out[0].dtype() == DType::f64)
    return fill_random<double>(out[0], [&](std::uint64_t block) {
      Pair values = uniform_pair(attrs.stream, block);
      for (double& v : values) v = scaled_uniform(v, attrs.a, attrs.b);
      return values;
    });
  fill_random<float>(out[0], [&](std::uint64_t block) {
    Quad values = uniform_quad(attrs.stream, block);
    for (float& v : values) v = scaled_uniform(v, static_cast<float>(attrs.a), static_cast<float>(attrs.b));
    return values;
  });
}

namespace {

template <class C>
void dropout_block(const C* const* in, C* const* out, std::int64_t n, const void* address) {
  const double p = *static_cast<const double*>(address);
  const C keep = static_cast<C>(1 - p);
  for (std::int64_t i = 0; i < n; ++i) out[0][i] = in[1][i] != C(0) ? in[0][i] / keep : C(0);
}

}  // namespace

void Dropout::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const std::uint64_t threshold = bernoulli_threshold(1 - attrs.p);
  fill_random<float>(out[1], [&](std::uint64_t block) {
    const PhiloxBlock words = philox_block(attrs.stream, block);
    Quad kept;
    for (std::size_t k = 0; k < 4; ++k) kept[k] = bernoulli(words.word[k], threshold) ? 1.0f : 0.0f;
    return kept;
  });
  const Tensor operands[] = {in[0], out[1]};
  constexpr BlockFns fns{&dropout_block<float>, &dropout_block<double>, nullptr};
  map_blocks(fns, compute_dtype(in[0].dtype()), operands, out.first(1), &attrs.p);
}

}  // namespace op

}  // namespace mezzo
