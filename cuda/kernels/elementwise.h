// Templates for the CUDA kernels of an elementwise op: forward and gradient, per compute type, on
// packs, and on packs of ops with a form for 16 bits.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "../../tensor/core/elementwise_info.h"
#include "../../tensor/ops/elementwise/apply.h"
#include "../attach.h"
#include "../runtime/shared_memory.h"
#include "low_table.h"
#include "map_packs.h"

namespace mezzo::gpu {

template <class Op>
using Operands = std::make_index_sequence<static_cast<std::size_t>(Op::traits.inputs)>;

template <class Op, class C, std::size_t... I>
__device__ inline void forward_run(const Map& map, const AttrsOf<Op>& attrs, std::int64_t at, int n,
                                   std::index_sequence<I...>) {
  C x[sizeof...(I)][kRun], y[kRun];
  (load_run<C>(map, map.in[I], at, n, x[I]), ...);
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (k < n) y[k] = static_cast<C>(elementwise_forward<Op>(attrs, x[I][k]...));
  store_run<C>(map, map.out[0], at, n, y);
}

template <class Op, class C>
__global__ void __launch_bounds__(kMapThreads)
    forward_kernel(const Map __grid_constant__ map, const AttrsOf<Op> attrs) {
  for_each_run(
      map, [&](std::int64_t at, int n) { forward_run<Op, C>(map, attrs, at, n, Operands<Op>{}); });
}

/** Loads a saved operand. Operands that the formulas do not use are not saved; the incoming
 *  gradient is used in their place, so that nothing is uninitialised. */
template <class C>
__device__ inline void load_saved(const Map& map, const MapOperand& x, std::int64_t at, int n,
                                  const C* g, C* values) {
  if (x.present()) return load_run<C>(map, x, at, n, values);
#pragma unroll
  for (int k = 0; k < kRun; ++k) values[k] = g[k];
}

template <class Op, class C, int J, std::size_t... I>
__device__ inline void gradient_run_of(const Map& map, const AttrsOf<Op>& attrs, std::int64_t at,
                                       int n, const C* g, const C* y, const C (*x)[kRun],
                                       std::index_sequence<I...>) {
  if constexpr (!Op::traits.is_mask(J)) {  // a mask has no gradient
    if (!map.out[J].present()) return;
    C gx[kRun];
#pragma unroll
    for (int k = 0; k < kRun; ++k)
      if (k < n) gx[k] = elementwise_gradient<Op, J>(g[k], y[k], attrs, x[I][k]...);
    store_run<C>(map, map.out[J], at, n, gx);
  }
}

template <class Op, class C, std::size_t... I>
__device__ inline void gradient_run(const Map& map, const AttrsOf<Op>& attrs, std::int64_t at,
                                    int n, std::index_sequence<I...> operands) {
  constexpr std::size_t count = sizeof...(I);
  C g[kRun], y[kRun], x[count][kRun];
  load_run<C>(map, map.in[count + 1], at, n, g);
  load_saved<C>(map, map.in[count], at, n, g, y);
  (load_saved<C>(map, map.in[I], at, n, g, x[I]), ...);
  (gradient_run_of<Op, C, static_cast<int>(I)>(map, attrs, at, n, g, y, x, operands), ...);
}

template <class Op, class C>
__global__ void __launch_bounds__(kMapThreads)
    gradient_kernel(const Map __grid_constant__ map, const AttrsOf<Op> attrs) {
  for_each_run(
      map, [&](std::int64_t at, int n) { gradient_run<Op, C>(map, attrs, at, n, Operands<Op>{}); });
}

// ---- packs --------------------------------------------------------------------------------------

template <class Op, std::size_t... I>
__device__ inline void forward_pack(const Map& map, const AttrsOf<Op>& attrs, const PackAt& at,
                                    std::index_sequence<I...>) {
  const auto places = places_of(map, at.first, map.in[I]..., map.out[0]);
  StoredPack stored[sizeof...(I)];
  float x[sizeof...(I)][kMapPack], y[kMapPack];
  (fetch_pack(map.in[I], places.of[I], at.apart, stored[I]), ...);
  (widen_pack(map.in[I], stored[I], x[I]), ...);
#pragma unroll
  for (int k = 0; k < kMapPack; ++k)
    y[k] = static_cast<float>(elementwise_forward<Op>(attrs, x[I][k]...));
  const std::int64_t place = places.of[sizeof...(I)];
  if constexpr (Op::traits.result == ResultType::truth)
    put_truth_pack(map.out[0], place, at.apart, y);
  else
    put_pack(map.out[0], place, at.apart, y);
}

template <class Op>
__global__ void __launch_bounds__(kMapThreads)
    forward_packs_kernel(const Map __grid_constant__ map, const AttrsOf<Op> attrs) {
  const PackAt at = pack_here(map);
  if (at.exists) forward_pack<Op>(map, attrs, at, Operands<Op>{});
}

/** Converts a saved operand, as load_saved. */
__device__ inline void widen_saved(const MapOperand& x, const StoredPack& pack, const float* g,
                                   float* values) {
  if (x.present()) return widen_pack(x, pack, values);
#pragma unroll
  for (int k = 0; k < kMapPack; ++k) values[k] = g[k];
}

template <class Op, int J, std::size_t... I>
__device__ inline void gradient_pack_of(const Map& map, const AttrsOf<Op>& attrs, const PackAt& at,
                                        const float* g, const float* y, const float (*x)[kMapPack],
                                        std::index_sequence<I...>) {
  if constexpr (!Op::traits.is_mask(J)) {
    if (!map.out[J].present()) return;
    float gx[kMapPack];
#pragma unroll
    for (int k = 0; k < kMapPack; ++k)
      gx[k] = elementwise_gradient<Op, J>(g[k], y[k], attrs, x[I][k]...);
    put_pack(map.out[J], places_of(map, at.first, map.out[J]).of[0], at.apart, gx);
  }
}

template <class Op, std::size_t... I>
__device__ inline void gradient_pack(const Map& map, const AttrsOf<Op>& attrs, const PackAt& at,
                                     std::index_sequence<I...> operands) {
  constexpr std::size_t count = sizeof...(I);
  const auto places = places_of(map, at.first, map.in[I]..., map.in[count], map.in[count + 1]);
  StoredPack stored[count + 2];
#pragma unroll
  for (std::size_t i = 0; i < count + 2; ++i)
    fetch_pack(map.in[i], places.of[i], at.apart, stored[i]);
  float g[kMapPack], y[kMapPack], x[count][kMapPack];
  widen_pack(map.in[count + 1], stored[count + 1], g);
  widen_saved(map.in[count], stored[count], g, y);
  (widen_saved(map.in[I], stored[I], g, x[I]), ...);
  (gradient_pack_of<Op, static_cast<int>(I)>(map, attrs, at, g, y, x, operands), ...);
}

template <class Op>
__global__ void __launch_bounds__(kMapThreads)
    gradient_packs_kernel(const Map __grid_constant__ map, const AttrsOf<Op> attrs) {
  const PackAt at = pack_here(map);
  if (at.exists) gradient_pack<Op>(map, attrs, at, Operands<Op>{});
}

// ---- packs of 16 bits ---------------------------------------------------------------------------
// Ops with a form for numbers of T, bf16 or f16, have kernels of their own for tensors of T in one
// order of memory.

template <class Op, class T> constexpr bool has_low_form() {
  if constexpr (std::is_same_v<T, BFloat16>)
    return HasBf16Form<Op>;
  else
    return HasF16Form<Op>;
}

/** Returns the range of the form. */
template <class Op, class T> MZ_HD constexpr math::for_bf16::Range low_range() {
  if constexpr (std::is_same_v<T, BFloat16>)
    return Op::bf16_range;
  else
    return Op::f16_range;
}

/** Returns the result of the form, not yet rounded. */
template <class Op, class T>
__device__ inline float forward_low(const AttrsOf<Op>& attrs, float x) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return elementwise_forward_bf16<Op>(attrs, x);
  else
    return Op::forward_f16(x, attrs);
}

inline bool has_packs_of(const Map& map, DType dtype) {
  const auto fits = [&](const MapOperand& x) { return !x.present() || is_line_of(map, x, dtype); };
  return std::all_of(std::begin(map.in), std::end(map.in), fits) &&
         std::all_of(std::begin(map.out), std::end(map.out), fits);
}

/** Returns the smaller of the low halves and of the high halves of two words. */
__device__ inline std::uint32_t smaller_halves(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __vminu2(a, b);
#else
  return std::min(a >> 16, b >> 16) << 16 | std::min(a & 0xFFFF, b & 0xFFFF);
#endif
}
/** Returns the larger of the low halves and of the high halves of two words. */
__device__ inline std::uint32_t larger_halves(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return __vmaxu2(a, b);
#else
  return ~smaller_halves(~a, ~b);
#endif
}

/** Returns true if all elements of the pack are in the range. */
__device__ inline bool all_in(math::for_bf16::Range range, const PackWords& pack) {
  std::uint32_t least = 0xFFFFFFFF, most = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t word = range.ignores_sign ? pack.item[k] & 0x7FFF7FFF : pack.item[k];
    least = smaller_halves(least, word);
    most = larger_halves(most, word);
  }
  return (least >> 16) >= range.low && (least & 0xFFFF) >= range.low &&
         (most >> 16) <= range.high && (most & 0xFFFF) <= range.high;
}

/** Computes a pack by the full formula. Not inlined, since almost all packs are in the range. */
template <class Op, class T>
__device__ __noinline__ void put_full_pack(const AttrsOf<Op>& attrs, PackWords pack,
                                           PackWords* to) {
  float x[kMapPack], y[kMapPack];
  widen<T>(pack, x);
#pragma unroll
  for (int k = 0; k < kMapPack; ++k) y[k] = elementwise_forward<Op>(attrs, x[k]);
  store_words(to, narrowed_words<T, kMapPack>(y));
}

template <class Op, class T>
__device__ inline void put_low_pack(const AttrsOf<Op>& attrs, PackWords pack, PackWords* to) {
  if (!all_in(low_range<Op, T>(), pack)) return put_full_pack<Op, T>(attrs, pack, to);
  with_attrs<Op>(attrs, [&](auto get) {
    float x[kMapPack], y[kMapPack];
    widen<T>(pack, x);
#pragma unroll
    for (int k = 0; k < kMapPack; ++k) y[k] = forward_low<Op, T>(get(), x[k]);
    store_words(to, narrowed_words<T, kMapPack>(y));
  });
}

template <class Op, class T>
__global__ void __launch_bounds__(kMapThreads)
    forward_low_packs_kernel(const PackWords* in, PackWords* out, std::int64_t packs,
                             const AttrsOf<Op> __grid_constant__ attrs) {
  const std::int64_t at = thread_here();
  if (at < packs) put_low_pack<Op, T>(attrs, in[at], out + at);
}

template <class Op, class T>
__global__ void __launch_bounds__(kMapThreads)
    gradient_low_packs_kernel(const PackWords* saved, const PackWords* incoming, PackWords* out,
                              std::int64_t packs, const AttrsOf<Op> attrs) {
  const std::int64_t at = thread_here();
  if (at >= packs) return;
  const PackWords saved_pack = saved[at], incoming_pack = incoming[at];
  with_attrs<Op>(attrs, [&](auto get) {
    store_words(out + at, gradient_low_pack<Op, T>(get(), saved_pack, incoming_pack));
  });
}

// ---- tables of functions of 16 bits -------------------------------------------------------------

constexpr int kTableThreads = 1024;
/** One block for each multiprocessor of an H100. */
constexpr int kTableBlocks = 132;
/** put_low_pack() of few packs. */
template <class Op, class T>
__device__ __noinline__ void put_pack_alone(const AttrsOf<Op>& attrs, PackWords pack,
                                            PackWords* to) {
  put_low_pack<Op, T>(attrs, pack, to);
}

template <class Op, class T>
__global__ void __launch_bounds__(kTableThreads)
    forward_table_kernel(const PackWords* in, PackWords* out, std::int64_t packs,
                         const AttrsOf<Op> __grid_constant__ attrs) {
  constexpr int kAhead = 4;  // packs that a thread loads at once
  MZ_DYNAMIC_SHARED(T, table);
  with_attrs<Op>(attrs, [&](auto get) {
    fill_table<T>(table, [&](T argument) {
      const auto range = low_range<Op, T>();
      const unsigned bits = range.ignores_sign ? argument.bits & 0x7FFF : argument.bits;
      const float x = widened(argument);
      const bool is_inside = bits >= range.low && bits <= range.high;
      return narrowed<T>(is_inside ? forward_low<Op, T>(get(), x)
                                   : static_cast<float>(elementwise_forward<Op>(get(), x)));
    });
  });
  const std::int64_t stride = std::int64_t{gridDim.x} * kTableThreads;
  for (std::int64_t first = thread_here(); first < packs; first += kAhead * stride) {
    PackWords loaded[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (first + j * stride < packs) loaded[j] = in[first + j * stride];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const std::int64_t at = first + j * stride;
      if (at >= packs) break;
      PackWords entries;
      if (!LowTable<T>::find(loaded[j], entries)) {
        put_pack_alone<Op, T>(attrs, loaded[j], out + at);
        continue;
      }
      PackWords result;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        result.item[k] = table[entries.item[k] & 0xFFFF].bits |
                         std::uint32_t{table[entries.item[k] >> 16].bits} << 16;
      store_words(out + at, result);
    }
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kTableThreads)
    gradient_table_kernel(const PackWords* saved, const PackWords* incoming, PackWords* out,
                          std::int64_t packs, const AttrsOf<Op> __grid_constant__ attrs) {
  constexpr int kAhead = 2;  // packs of each operand that a thread loads at once
  MZ_DYNAMIC_SHARED(float, table);
  fill_derivatives<Op, T>(attrs, table);
  const std::int64_t stride = std::int64_t{gridDim.x} * kTableThreads;
  for (std::int64_t first = thread_here(); first < packs; first += kAhead * stride) {
    PackWords values[kAhead], g[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (first + j * stride < packs) {
        values[j] = saved[first + j * stride];
        g[j] = incoming[first + j * stride];
      }
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (first + j * stride < packs)
        store_words(out + first + j * stride,
                    gradient_by_table<Op, T>(attrs, table, values[j], g[j]));
  }
}

// ---- launches -----------------------------------------------------------------------------------

template <class Op, class C>
void launch_forward(const Map& map, const void* attrs, runtime::Stream stream) {
  launch(&forward_kernel<Op, C>, map_grid(map), stream, map,
         *static_cast<const AttrsOf<Op>*>(attrs));
}
template <class Op, class C>
void launch_gradient(const Map& map, const void* attrs, runtime::Stream stream) {
  launch(&gradient_kernel<Op, C>, map_grid(map), stream, map,
         *static_cast<const AttrsOf<Op>*>(attrs));
}

/** Calls f(std::type_identity<T>{}) and returns true if the op has a form for the tensors of a map,
 *  which are of T. */
template <class Op, class F> bool with_low_form(const Map& map, const F& f) {
  if constexpr (has_low_form<Op, BFloat16>())
    if (has_packs_of(map, DType::bf16)) return f(std::type_identity<BFloat16>{}), true;
  if constexpr (has_low_form<Op, Half>())
    if (has_packs_of(map, DType::f16)) return f(std::type_identity<Half>{}), true;
  return false;
}

/** Returns the grid of a kernel with a table. */
template <class T, class Entry, class... Ps> Grid table_grid(void (*kernel)(Ps...)) {
  const Grid grid{.blocks = kTableBlocks,
                  .threads = kTableThreads,
                  .shared = LowTable<T>::kEntries * sizeof(Entry)};
  constexpr std::size_t kOfAll = 48 << 10;  // more must be allowed
  if (grid.shared > kOfAll)
    runtime::allow_shared(reinterpret_cast<const void*>(kernel), grid.shared);
  return grid;
}

template <class Op>
void launch_packed_forward(const Map& map, const void* address, runtime::Stream stream) {
  const auto& attrs = *static_cast<const AttrsOf<Op>*>(address);
  constexpr bool has_truths = Op::traits.result == ResultType::truth;
  if ((map.out[0].dtype == DType::boolean) != has_truths)
    return launch_forward<Op, float>(map, address, stream);
  const bool done = with_low_form<Op>(map, [&]<class T>(std::type_identity<T>) {
    const auto run = [&](auto kernel, const Grid& grid) {
      launch(kernel, grid, stream, static_cast<const PackWords*>(map.in[0].data),
             static_cast<PackWords*>(map.out[0].data), map.count / kMapPack, attrs);
    };
    if constexpr (kHasTable<Op>)
      if (map.count >= kTableElements)
        return run(&forward_table_kernel<Op, T>, table_grid<T, T>(&forward_table_kernel<Op, T>));
    run(&forward_low_packs_kernel<Op, T>, pack_grid(map));
  });
  if (done) return;
  launch(&forward_packs_kernel<Op>, pack_grid(map), stream, map, attrs);
}
template <class Op>
void launch_packed_gradient(const Map& map, const void* address, runtime::Stream stream) {
  const auto& attrs = *static_cast<const AttrsOf<Op>*>(address);
  const bool done = with_low_form<Op>(map, [&]<class T>(std::type_identity<T>) {
    const MapOperand &x = map.in[0], &y = map.in[1], &g = map.in[2];
    const auto run = [&](auto kernel, const Grid& grid) {
      launch(kernel, grid, stream, static_cast<const PackWords*>(x.present() ? x.data : y.data),
             static_cast<const PackWords*>(g.data), static_cast<PackWords*>(map.out[0].data),
             map.count / kMapPack, attrs);
    };
    if constexpr (kHasTable<Op> && LowTable<T>::kIsBf16)
      if (map.count >= kTableElements)
        return run(&gradient_table_kernel<Op, T>,
                   table_grid<T, float>(&gradient_table_kernel<Op, T>));
    run(&gradient_low_packs_kernel<Op, T>, pack_grid(map));
  });
  if (done) return;
  launch(&gradient_packs_kernel<Op>, pack_grid(map), stream, map, attrs);
}

template <class Op>
void elementwise(const OpInfo& info, Inputs in, Outputs out, const void* attrs) {
  constexpr OpTraits traits = Op::traits;
  static_assert(traits.inputs + 2 <= kMostMapInputs && traits.inputs <= kMostMapOutputs);
  MapFns fns;
  if constexpr (traits.integers != Integers::only) {
    fns.f32 = &launch_forward<Op, float>;
    fns.f64 = &launch_forward<Op, double>;
    fns.packed = &launch_packed_forward<Op>;
  }
  if constexpr (traits.integers == Integers::keep || traits.integers == Integers::only)
    fns.i64 = &launch_forward<Op, std::int64_t>;
  map_elements(fns, elementwise_arithmetic(info, in), in, out, attrs);
}

template <class Op>
void elementwise_derivative(const OpInfo&, Inputs in, Outputs out, const void* attrs) {
  constexpr MapFns fns{.f32 = &launch_gradient<Op, float>,
                       .f64 = &launch_gradient<Op, double>,
                       .packed = &launch_packed_gradient<Op>};
  map_elements(fns, gradient_arithmetic(in), in, out, attrs);
}

/** Registers both kernels of an op. */
template <class Op> void attach_elementwise() {
  kernel_slot<Op>() = &elementwise<Op>;
  if constexpr (Op::traits.differentiable)
    find_op(Op::traits.name)->derivative[static_cast<std::size_t>(DeviceKind::cuda)] =
        &elementwise_derivative<Op>;
}

template <class... Ops> void attach_all(type_list<Ops...>) { (attach_elementwise<Ops>(), ...); }

/** Registers the kernels of `Ops` but for those of `Left`. */
template <class... Ops, class... Left> void attach_all(type_list<Ops...>, type_list<Left...> left) {
  const auto attach = []<class Op, class... L>(type_list<Op>, type_list<L...>) {
    if constexpr (!(std::is_same_v<Op, L> || ...)) attach_elementwise<Op>();
  };
  (attach(type_list<Ops>{}, left), ...);
}

}  // namespace mezzo::gpu
