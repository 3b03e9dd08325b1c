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

__global__ void __launch_bounds__(kMapThreads) copy_packs_kernel(const __grid_constant__ Map map) {
  const std::int64_t at = pack_here();
  if (at >= map.count) return;
  StoredPack stored;
  float values[kMapPack];
  fetch_pack(map, map.in[0], at, stored);
  widen_pack(map.in[0], stored, values);
  put_pack(map, map.out[0], at, values);
}

void launch_packed_copy(const Map& map, const void*, runtime::Stream stream) {
  launch(&copy_packs_kernel, pack_grid(map), stream, map);
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
  constexpr MapFns fns{&launch_copy<float>, &launch_copy<double>, &launch_copy<std::int64_t>,
                       &launch_packed_copy};
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
