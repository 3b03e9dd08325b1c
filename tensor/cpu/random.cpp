// Kernels of the random ops. Element i depends on seed, draw and i alone, so results do not depend
// on threads or chunks.
#include "../ops/random.h"

#include <algorithm>

#include "../core/row_major.h"
#include "../device/parallel.h"
#include "../random/random_values.h"
#include "block_map.h"
#include "convert.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Writes values(block) for the blocks of elements [begin, end); begin is a multiple of the number
 *  of values in a block. */
template <class Values>
void fill_blocks(typename Values::Value* to, std::int64_t begin, std::int64_t end,
                 const Values& values) {
  constexpr std::int64_t kPerBlock = Values::kPerBlock;
  for (std::int64_t i = begin; i < end; i += kPerBlock) {
    const auto block = values(static_cast<std::uint64_t>(i / kPerBlock));
    std::copy_n(block.value, std::min(kPerBlock, end - i), to + (i - begin));
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
                                      static_cast<float>(attrs.b)});
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
  fill_random(out[1], BernoulliValues{attrs.stream, bernoulli_threshold(1 - attrs.p)});
  const Tensor operands[] = {in[0], out[1]};
  constexpr BlockFns fns{&dropout_block<float>, &dropout_block<double>, nullptr};
  map_blocks(fns, compute_dtype(in[0].dtype()), operands, out.first(1), &attrs.p);
}

}  // namespace op

}  // namespace mezzo
