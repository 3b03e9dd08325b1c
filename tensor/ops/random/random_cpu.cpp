// Kernels of the random ops. Element i depends on seed, draw and i alone, so results do not depend
// on threads or chunks.
#include "random.h"

#include <algorithm>

#include "../../core/row_major.h"
#include "../../cpu/block_map.h"
#include "../../cpu/convert.h"
#include "../../device/parallel.h"
#include "../../random/random_values.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Blocks of a stream that are computed together, in vector lanes. */
constexpr int kTogether = 64;

/** Computes the blocks [first, first + kTogether) of a stream. */
void philox_blocks(PhiloxStream stream, std::uint64_t first, PhiloxBlock* to) {
  std::uint32_t words[4][kTogether];
  const auto update = [&](auto&& next) {
    for (int i = 0; i < kTogether; ++i) {
      const PhiloxBlock block = next(i);
      for (int k = 0; k < 4; ++k) words[k][i] = block.word[k];
    }
  };
  update(
      [&](int i) { return detail::philox_counter(stream, first + static_cast<std::uint64_t>(i)); });
  detail::PhiloxKey key = detail::philox_key(stream);
  for (int round = 0; round < detail::kPhiloxRounds; ++round, key = key.next())
    update([&](int i) {
      return detail::philox_round({{words[0][i], words[1][i], words[2][i], words[3][i]}}, key);
    });
  for (int i = 0; i < kTogether; ++i)
    to[i] = {{words[0][i], words[1][i], words[2][i], words[3][i]}};
}

/** Writes the values of the blocks of elements [begin, end); begin is a multiple of the number of
 *  values in a block. */
template <class Values>
void fill_blocks(typename Values::Value* to, std::int64_t begin, std::int64_t end,
                 const Values& values) {
  constexpr std::int64_t kPerBlock = Values::kPerBlock;
  PhiloxBlock words[kTogether];
  for (std::int64_t i = begin; i < end; i += kTogether * kPerBlock) {
    philox_blocks(values.stream, static_cast<std::uint64_t>(i / kPerBlock), words);
    const std::int64_t n = std::min(kTogether * kPerBlock, end - i), whole = n / kPerBlock;
    for (std::int64_t b = 0; b < whole; ++b) {
      const auto block = values(words[b]);
      for (int k = 0; k < kPerBlock; ++k) to[i - begin + b * kPerBlock + k] = block.value[k];
    }
    if (whole * kPerBlock < n)
      std::copy_n(values(words[whole]).value, n - whole * kPerBlock,
                  to + (i - begin) + whole * kPerBlock);
  }
}

/** Fills a tensor of any dtype and strides; values are generated block by block and rounded
 *  once. */
template <class Values> void fill_random(Tensor& out, const Values& values) {
  using V = typename Values::Value;
  with_row_major(out, [&](const Tensor& flat) {
    char* data = static_cast<char*>(flat.raw_data());
    const auto item = static_cast<std::int64_t>(item_size(flat.dtype()));
    parallel_chunks(
        flat.numel(), kElementwiseChunk,
        [&](std::int64_t begin, std::int64_t end) {
          V buffer[kBlock];
          for (std::int64_t at = begin; at < end; at += kBlock) {
            const std::int64_t n = std::min(kBlock, end - at);
            fill_blocks(buffer, at, at + n, values);
            convert(dtype_of<V>(), buffer, flat.dtype(), data + at * item, n);
          }
        },
        4.0);
  });
}

}  // namespace

namespace op {

void Bernoulli::cpu(Inputs, Outputs out, const Attrs& attrs) {
  fill_random(out[0], BernoulliValues{attrs.stream, bernoulli_threshold(attrs.a)});
}

void Normal::cpu(Inputs, Outputs out, const Attrs& attrs) {
  if (out[0].dtype() == DType::f64)
    fill_random(out[0], WideNormalValues{attrs.stream, attrs.a, attrs.b});
  else
    fill_random(out[0], NormalValues{attrs.stream, attrs.a, attrs.b});
}

void Randint::cpu(Inputs, Outputs out, const Attrs& attrs) {
  fill_random(out[0], IntegerValues::between(attrs.stream, attrs.a, attrs.b));
}

void Uniform::cpu(Inputs, Outputs out, const Attrs& attrs) {
  if (out[0].dtype() == DType::f64)
    fill_random(out[0], WideUniformValues{attrs.stream, attrs.a, attrs.b});
  else
    fill_random(out[0], UniformValues{attrs.stream, static_cast<float>(attrs.a),
                                      static_cast<float>(attrs.b), out[0].dtype()});
}

namespace {

template <class C>
void dropout_block(const C* const* in, C* const* out, std::int64_t n, const void* address) {
  const C scale = static_cast<C>(dropout_scale(*static_cast<const double*>(address)));
  const C *x = in[0], *mask = in[1];
  C* y = out[0];
  MZ_INDEPENDENT_LOOP
  for (std::int64_t i = 0; i < n; ++i) y[i] = mask[i] != C(0) ? x[i] * scale : C(0);
}

}  // namespace

void Dropout::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  fill_random(out[1], BernoulliValues{attrs.stream, bernoulli_threshold(1 - attrs.p)});
  const Tensor operands[] = {in[0], out[1]};
  constexpr BlockFns fns{&dropout_block<float>, &dropout_block<double>, nullptr};
  map_blocks(fns, compute_dtype(in[0].dtype()), operands, out.first(1), &attrs.p);
}

}  // namespace op

}  // namespace mezzo
