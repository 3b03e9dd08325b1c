// The CUDA kernels of the copying ops: conversion, clone, copy_, fill.
#include "../../../tensor/ops/shape/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "../../../tensor/cpu/convert.h"
#include "../../../tensor/cpu/word.h"
#include "../../attach.h"
#include "../map_packs.h"
#include "../transpose.h"
#include "copy.h"

namespace mezzo::gpu {

namespace {

__global__ void __launch_bounds__(kMapThreads) copy_packs_kernel(const Map __grid_constant__ map) {
  const PackAt at = pack_here(map);
  if (!at.exists) return;
  const auto places = places_of(map, at.first, map.in[0], map.out[0]);
  StoredPack stored;
  float values[kMapPack];
  fetch_pack(map.in[0], places.of[0], at.apart, stored);
  widen_pack(map.in[0], stored, values);
  if (map.out[0].dtype == DType::boolean)
    put_truth_pack(map.out[0], places.of[1], at.apart, values);
  else
    put_pack(map.out[0], places.of[1], at.apart, values);
}

void launch_packed_copy(const Map& map, const void*, runtime::Stream stream) {
  launch(&copy_packs_kernel, pack_grid(map), stream, map);
}

/** Runs that a thread of convert_kernel converts, one block width apart. */
constexpr int kConvertRuns = 4;

/** Converts contiguous elements of From to the dtype `to`, each rounded once. */
template <class From>
__global__ void __launch_bounds__(kMapThreads)
    convert_kernel(const void* from, void* result, DType to, std::int64_t count) {
  using Integer = std::conditional_t<sizeof(From) < 8, std::int32_t, std::int64_t>;
  using C = std::conditional_t<std::is_integral_v<From>, Integer, ComputeOf<From>>;
  constexpr bool is_bool = std::is_same_v<From, bool>;  // any byte may come from a file
  using Stored = std::conditional_t<is_bool, std::uint8_t, From>;
  const auto* const runs = static_cast<const Pack<Stored, kRun>*>(from);
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kMapThreads * kConvertRuns + threadIdx.x;
  Pack<Stored, kRun> held[kConvertRuns];
#pragma unroll
  for (int r = 0; r < kConvertRuns; ++r)
    if (first + r * kMapThreads < count / kRun) held[r] = runs[first + r * kMapThreads];
  const auto put = [&]<class To>(std::type_identity<To>) {
#pragma unroll
    for (int r = 0; r < kConvertRuns; ++r) {
      const std::int64_t at = first + r * kMapThreads;
      if (at >= count / kRun) return;
      Pack<To, kRun> run;
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        C value = element_as<C>(held[r].item[k]);
        if (is_bool) value = value != C(0) ? C(1) : C(0);
        run.item[k] = element_as<To>(value);
      }
      static_cast<Pack<To, kRun>*>(result)[at] = run;
    }
  };
  if (to == DType::boolean)
    put(std::type_identity<bool>{});
  else
    with_storage(to, put);
  const std::int64_t last = count - count % kRun + thread_here();  // of an incomplete run
  if (last < count)
    store_element<C>(result, to, last, load_element<C>(from, dtype_of<From>(), last));
}

/** Converts by convert_kernel. Returns false for tensors that are not contiguous in one order or
 * not aligned, for a scalar, and between floats of up to 32 bits. */
bool launch_conversion(const Map& map, runtime::Stream stream) {
  const MapOperand &x = map.in[0], &y = map.out[0];
  const auto is_float = [](DType dtype) { return is_floating(dtype) && dtype != DType::f64; };
  const auto fits = [](const MapOperand& operand) {
    return operand.layout == MapOperand::Layout::tensor && operand.vectors;
  };
  if (map.rank != 1 || !fits(x) || !fits(y) || (is_float(x.dtype) && is_float(y.dtype)))
    return false;
  visit_dtype(x.dtype, [&]<class From>(std::type_identity<From>) {
    const std::int64_t blocks = blocks_for(map.count, kMapThreads * kConvertRuns * kRun);
    launch(&convert_kernel<From>, {.blocks = blocks, .threads = kMapThreads}, stream,
           static_cast<const void*>(x.data), y.data, y.dtype, map.count);
  });
  return true;
}

template <class C> void launch_any_copy(const Map& map, const void*, runtime::Stream stream) {
  if (!launch_conversion(map, stream)) launch_copy<C>(map, nullptr, stream);
}

/** Packs that a thread of fill_kernel stores, one block width apart. */
constexpr int kFillPacks = 4;

__global__ void __launch_bounds__(kMapThreads)
    fill_kernel(const PackWords pattern, PackWords* to, std::int64_t packs) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kMapThreads * kFillPacks + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kFillPacks; ++k) {
    const std::int64_t i = first + k * kMapThreads;
    if (i < packs) to[i] = pattern;
  }
}

/** Returns a pack of equal elements. */
PackWords pack_of(double value, DType dtype) {
  PackWords pack;
  cpu_kernels::visit_word(dtype, [&]<class Word>(std::type_identity<Word>) {
    Word bits;
    cpu_kernels::convert(DType::f64, &value, dtype, &bits, 1);
    Word words[sizeof(PackWords) / sizeof(Word)];
    std::fill(std::begin(words), std::end(words), bits);
    std::memcpy(&pack, words, sizeof pack);
  });
  return pack;
}

void to(Inputs in, Outputs out, const op::To::Attrs&) { copy_elements(in[0], out[0]); }
void clone(Inputs in, Outputs out, const op::Clone::Attrs&) { copy_elements(in[0], out[0]); }
void copy(Inputs in, Outputs out, const op::Copy::Attrs&) { copy_elements(in[1], out[0]); }
void fill(Inputs, Outputs out, const op::Fill::Attrs& attrs) { fill_elements(out[0], attrs.value); }

}  // namespace

void fill_elements(Tensor& to, double value) {
  const auto bytes = static_cast<std::size_t>(to.numel()) * item_size(to.dtype());
  const bool is_packs = same_dense_layout(to, to) && bytes % sizeof(PackWords) == 0 &&
                        reinterpret_cast<std::uintptr_t>(to.raw_data()) % sizeof(PackWords) == 0;
  if (!is_packs) return copy_elements(scalar_operand(value), to);
  const auto packs = static_cast<std::int64_t>(bytes / sizeof(PackWords));
  launch(&fill_kernel,
         {.blocks = blocks_for(packs, kMapThreads * kFillPacks), .threads = kMapThreads},
         current_stream(to.device()), pack_of(value, to.dtype()),
         static_cast<PackWords*>(to.raw_data()), packs);
}

void copy_elements(const Tensor& from, Tensor& to) {
  constexpr MapFns fns{&launch_any_copy<float>, &launch_any_copy<double>,
                       &launch_any_copy<std::int64_t>, &launch_packed_copy};
  map_elements(fns, compute_dtype(from.dtype()), {&from, 1}, {&to, 1}, nullptr);
}

void start_from(const Tensor& x, Tensor& out) {
  if (x.raw_data() != out.raw_data()) copy_elements(x, out);
}

void attach_copy() {
  attach<op::To, to>();
  attach<op::Clone, clone>();
  attach<op::Copy, copy>();
  attach<op::Fill, fill>();
  attach<op::CopyAcross, op::CopyAcross::cpu>();
  attach<op::ToDevice, op::ToDevice::cpu>();
}

}  // namespace mezzo::gpu
