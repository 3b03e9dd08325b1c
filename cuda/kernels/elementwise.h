// Templates for the CUDA kernels of an elementwise op: forward and gradient, per compute type and
// on packs.
#pragma once

#include <utility>

#include "../../tensor/core/elementwise_info.h"
#include "../../tensor/elementwise/apply.h"
#include "../attach.h"
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
    forward_kernel(const __grid_constant__ Map map, const AttrsOf<Op> attrs) {
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
    gradient_kernel(const __grid_constant__ Map map, const AttrsOf<Op> attrs) {
  for_each_run(
      map, [&](std::int64_t at, int n) { gradient_run<Op, C>(map, attrs, at, n, Operands<Op>{}); });
}

// ---- packs --------------------------------------------------------------------------------------

template <class Op, std::size_t... I>
__device__ inline void forward_pack(const Map& map, const AttrsOf<Op>& attrs, std::int64_t at,
                                    std::index_sequence<I...>) {
  StoredPack stored[sizeof...(I)];
  float x[sizeof...(I)][kMapPack], y[kMapPack];
  (fetch_pack(map, map.in[I], at, stored[I]), ...);
  (widen_pack(map.in[I], stored[I], x[I]), ...);
#pragma unroll
  for (int k = 0; k < kMapPack; ++k)
    y[k] = static_cast<float>(elementwise_forward<Op>(attrs, x[I][k]...));
  put_pack(map, map.out[0], at, y);
}

template <class Op>
__global__ void __launch_bounds__(kMapThreads)
    forward_packs_kernel(const __grid_constant__ Map map, const AttrsOf<Op> attrs) {
  const std::int64_t at = pack_here();
  if (at < map.count) forward_pack<Op>(map, attrs, at, Operands<Op>{});
}

/** Converts a saved operand, as load_saved. */
__device__ inline void widen_saved(const MapOperand& x, const StoredPack& pack, const float* g,
                                   float* values) {
  if (x.present()) return widen_pack(x, pack, values);
#pragma unroll
  for (int k = 0; k < kMapPack; ++k) values[k] = g[k];
}

template <class Op, int J, std::size_t... I>
__device__ inline void gradient_pack_of(const Map& map, const AttrsOf<Op>& attrs, std::int64_t at,
                                        const float* g, const float* y, const float (*x)[kMapPack],
                                        std::index_sequence<I...>) {
  if constexpr (!Op::traits.is_mask(J)) {
    if (!map.out[J].present()) return;
    float gx[kMapPack];
#pragma unroll
    for (int k = 0; k < kMapPack; ++k)
      gx[k] = elementwise_gradient<Op, J>(g[k], y[k], attrs, x[I][k]...);
    put_pack(map, map.out[J], at, gx);
  }
}

template <class Op, std::size_t... I>
__device__ inline void gradient_pack(const Map& map, const AttrsOf<Op>& attrs, std::int64_t at,
                                     std::index_sequence<I...> operands) {
  constexpr std::size_t count = sizeof...(I);
  StoredPack stored[count + 2];
#pragma unroll
  for (std::size_t i = 0; i < count + 2; ++i) fetch_pack(map, map.in[i], at, stored[i]);
  float g[kMapPack], y[kMapPack], x[count][kMapPack];
  widen_pack(map.in[count + 1], stored[count + 1], g);
  widen_saved(map.in[count], stored[count], g, y);
  (widen_saved(map.in[I], stored[I], g, x[I]), ...);
  (gradient_pack_of<Op, static_cast<int>(I)>(map, attrs, at, g, y, x, operands), ...);
}

template <class Op>
__global__ void __launch_bounds__(kMapThreads)
    gradient_packs_kernel(const __grid_constant__ Map map, const AttrsOf<Op> attrs) {
  const std::int64_t at = pack_here();
  if (at < map.count) gradient_pack<Op>(map, attrs, at, Operands<Op>{});
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

template <class Op>
void launch_packed_forward(const Map& map, const void* attrs, runtime::Stream stream) {
  launch(&forward_packs_kernel<Op>, pack_grid(map), stream, map,
         *static_cast<const AttrsOf<Op>*>(attrs));
}
template <class Op>
void launch_packed_gradient(const Map& map, const void* attrs, runtime::Stream stream) {
  launch(&gradient_packs_kernel<Op>, pack_grid(map), stream, map,
         *static_cast<const AttrsOf<Op>*>(attrs));
}

template <class Op>
void elementwise(const OpInfo& info, Inputs in, Outputs out, const void* attrs) {
  constexpr OpTraits traits = Op::traits;
  static_assert(traits.inputs + 2 <= kMostMapInputs && traits.inputs <= kMostMapOutputs);
  MapFns fns;
  if constexpr (traits.integers != Integers::only) {
    fns.f32 = &launch_forward<Op, float>;
    fns.f64 = &launch_forward<Op, double>;
    if constexpr (traits.result == ResultType::same) fns.packed = &launch_packed_forward<Op>;
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

}  // namespace mezzo::gpu
