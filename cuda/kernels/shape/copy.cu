// The CUDA kernels of the copying ops: conversion, clone, copy_, fill.
#include "../../../tensor/ops/shape/copy.h"

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

void to(Inputs in, Outputs out, const op::To::Attrs&) { copy_elements(in[0], out[0]); }
void clone(Inputs in, Outputs out, const op::Clone::Attrs&) { copy_elements(in[0], out[0]); }
void copy(Inputs in, Outputs out, const op::Copy::Attrs&) { copy_elements(in[1], out[0]); }
void fill(Inputs, Outputs out, const op::Fill::Attrs& attrs) {
  copy_elements(scalar_operand(attrs.value), out[0]);
}

}  // namespace

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
