// The CUDA kernels of the random ops. They give the CPU's numbers bit for bit: element i is a
// function of seed, draw and i.
#include "../../../tensor/ops/random/random.h"

#include "../../../tensor/random/random_values.h"
#include "../../attach.h"
#include "../map_packs.h"

namespace mezzo::gpu {

namespace {

/** Writes values(block) in order over the elements of a tensor of any strides, rounded once. */
template <class Values>
__global__ void __launch_bounds__(kMapThreads)
    fill_kernel(const Map __grid_constant__ map, const Values values) {
  using V = typename Values::Value;
  Values here = values;
  here.stream = values.stream.resolved();
  for_each_run(map, [&](std::int64_t at, int n) {
    V run[kRun];
#pragma unroll
    for (int first = 0; first < kRun; first += Values::kPerBlock) {
      const auto block = here(
          philox_block(here.stream, static_cast<std::uint64_t>((at + first) / Values::kPerBlock)));
#pragma unroll
      for (int k = 0; k < Values::kPerBlock; ++k) run[first + k] = block.value[k];
    }
    store_run<V>(map, map.out[0], at, n, run);
  });
}

template <class Values>
void launch_fill(const Map& map, const void* values, runtime::Stream stream) {
  launch(&fill_kernel<Values>, map_grid(map), stream, map, *static_cast<const Values*>(values));
}

/** Fills a tensor. The type of the values determines the arithmetic, so there is one kernel,
 *  registered as f32. */
template <class Values> void fill(Tensor& out, const Values& values) {
  constexpr MapFns fns{.f32 = &launch_fill<Values>};
  map_elements(fns, DType::f32, {}, {&out, 1}, &values, MapOrder::row_major);
}

void bernoulli(Inputs, Outputs out, const op::RandomAttrs& attrs) {
  fill(out[0], BernoulliValues{attrs.stream, bernoulli_threshold(attrs.a)});
}

void normal(Inputs, Outputs out, const op::RandomAttrs& attrs) {
  if (out[0].dtype() == DType::f64)
    fill(out[0], WideNormalValues{attrs.stream, attrs.a, attrs.b});
  else
    fill(out[0], NormalValues{attrs.stream, attrs.a, attrs.b});
}

void randint(Inputs, Outputs out, const op::RandomAttrs& attrs) {
  fill(out[0], IntegerValues::between(attrs.stream, attrs.a, attrs.b));
}

void uniform(Inputs, Outputs out, const op::RandomAttrs& attrs) {
  if (out[0].dtype() == DType::f64)
    fill(out[0], WideUniformValues{attrs.stream, attrs.a, attrs.b});
  else
    fill(out[0], UniformValues{attrs.stream, static_cast<float>(attrs.a),
                               static_cast<float>(attrs.b), out[0].dtype()});
}

/** Applies dropout with a mask that is drawn already. */
template <class C>
__global__ void __launch_bounds__(kMapThreads)
    dropout_kernel(const Map __grid_constant__ map, const C scale) {
  for_each_run(map, [&](std::int64_t at, int n) {
    C x[kRun], mask[kRun];
    load_run<C>(map, map.in[0], at, n, x);
    load_run<C>(map, map.in[1], at, n, mask);
#pragma unroll
    for (int k = 0; k < kRun; ++k)
      if (k < n) x[k] = mask[k] != C(0) ? x[k] * scale : C(0);
    store_run<C>(map, map.out[0], at, n, x);
  });
}

/** A mask for a pack: a byte per element. */
using PackMask = Pack<std::uint32_t, 2>;

/** Draws the mask for two blocks of random numbers, `block` and the one `apart` after it, and
 *  multiplies the elements that it keeps by `scale`. */
__device__ inline PackMask drop(const BernoulliValues& values, float scale, std::int64_t block,
                                int apart, float* x) {
  const PhiloxStream stream = values.stream.resolved();
  PackMask mask{};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const PhiloxBlock drawn =
        philox_block(stream, static_cast<std::uint64_t>(block + half * apart));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const bool is_kept = mezzo::bernoulli(drawn.word[k], values.threshold);
      x[4 * half + k] = is_kept ? x[4 * half + k] * scale : 0.0f;
      mask.item[half] |= is_kept ? 1u << (8 * k) : 0u;
    }
  }
  return mask;
}

/** Draws the mask, stores it and applies it, in packs of a row-major result. */
__global__ void __launch_bounds__(kMapThreads)
    packed_dropout_kernel(const Map __grid_constant__ map, const BernoulliValues values,
                          const float scale) {
  const PackAt at = pack_here(map);
  if (!at.exists) return;
  const auto places = places_of(map, at.first, map.in[0], map.in[1], map.out[0]);
  StoredPack stored;
  float x[kMapPack];
  fetch_pack(map.in[0], places.of[0], at.apart, stored);
  widen_pack(map.in[0], stored, x);
  const PackMask mask = drop(values, scale, at.first / kRun, at.apart / kRun, x);
  auto* const to = static_cast<std::uint8_t*>(map.in[1].data) + places.of[1];
  *reinterpret_cast<std::uint32_t*>(to) = mask.item[0];
  *reinterpret_cast<std::uint32_t*>(to + at.apart) = mask.item[1];
  put_pack(map.out[0], places.of[2], at.apart, x);
}

/** The same for a contiguous operand and a result of T. */
template <class T>
__global__ void __launch_bounds__(kMapThreads)
    typed_packed_dropout_kernel(const PackWords* in, PackWords* out, PackMask* masks,
                                std::int64_t packs, const BernoulliValues values,
                                const float scale) {
  const std::int64_t at = thread_here();
  if (at >= packs) return;
  const PackWords pack = in[at];
  float x[kMapPack];
  widen<T>(pack, x);
  store_words(masks + at, drop(values, scale, 2 * at, 1, x));
  store_words(out + at, narrowed_words<T, kMapPack>(x));
}

struct DropoutCall {
  BernoulliValues values;
  double p;
  Tensor* mask;  // also the second operand
};

template <class C>
void launch_dropout(const Map& map, const void* address, runtime::Stream stream) {
  const auto& call = *static_cast<const DropoutCall*>(address);
  fill(*call.mask, call.values);
  launch(&dropout_kernel<C>, map_grid(map), stream, map, static_cast<C>(op::dropout_scale(call.p)));
}

void launch_packed_dropout(const Map& map, const void* address, runtime::Stream stream) {
  const auto& call = *static_cast<const DropoutCall*>(address);
  const auto scale = static_cast<float>(op::dropout_scale(call.p));
  const auto launch_of = [&](auto kernel) {
    launch(kernel, pack_grid(map), stream, static_cast<const PackWords*>(map.in[0].data),
           static_cast<PackWords*>(map.out[0].data), static_cast<PackMask*>(map.in[1].data),
           map.count / kMapPack, call.values, scale);
  };
  const DType dtype = map.out[0].dtype;
  const bool are_same = is_line_of(map, map.in[0], dtype) && is_line_of(map, map.out[0], dtype);
  if (are_same && dtype == DType::bf16) return launch_of(&typed_packed_dropout_kernel<BFloat16>);
  if (are_same && dtype == DType::f16) return launch_of(&typed_packed_dropout_kernel<Half>);
  launch(&packed_dropout_kernel, pack_grid(map), stream, map, call.values, scale);
}

void dropout(Inputs in, Outputs out, const op::Dropout::Attrs& attrs) {
  const Tensor operands[] = {in[0], out[1]};
  const DropoutCall call{{attrs.stream, bernoulli_threshold(1 - attrs.p)}, attrs.p, &out[1]};
  MapFns fns{&launch_dropout<float>, &launch_dropout<double>};
  if (out[0].is_contiguous()) fns.packed = &launch_packed_dropout;  // numbers are drawn row by row
  map_elements(fns, compute_dtype(in[0].dtype()), operands, out.first(1), &call);
}

}  // namespace

void attach_random() {
  attach<op::Bernoulli, bernoulli>();
  attach<op::Dropout, dropout>();
  attach<op::Normal, normal>();
  attach<op::Randint, randint>();
  attach<op::Uniform, uniform>();
}

}  // namespace mezzo::gpu
