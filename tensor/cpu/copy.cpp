// Kernels of the copying ops: conversion, clone, copy_, fill.
#include "../ops/copy.h"

#include <cstring>

#include "../dispatch.h"
#include "../parallel.h"
#include "block_map.h"
#include "convert.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

template <class C> void identity_block(const C* const* in, C* const* out, std::int64_t n, const void*) {
  std::memcpy(out[0], in[0], static_cast<std::size_t>(n) * sizeof(C));
}

/** out = in, broadcast and converted. Values travel in the source's arithmetic type, so the store is the one rounding. */
void copy_elements(const Tensor& from, Tensor& to) {
  const bool linear = from.is_contiguous() && to.is_contiguous() && from.shape() == to.shape();
  if (!linear) {
    constexpr BlockFns identity{&identity_block<float>, &identity_block<double>,
                                &identity_block<std::int64_t>};
    return map_blocks(identity, compute_dtype(from.dtype()), {&from, 1}, {&to, 1}, nullptr);
  }
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(to.raw_data());
  const auto source_item = static_cast<std::int64_t>(item_size(from.dtype())),
             target_item = static_cast<std::int64_t>(item_size(to.dtype()));
  parallel_chunks(from.numel(), kElementwiseChunk, [&](std::int64_t begin, std::int64_t end) {
    convert(from.dtype(), source + begin * source_item, to.dtype(), target + begin * target_item,
            end - begin);
  });
}

}  // namespace

namespace op {

void To::cpu(Inputs in, Outputs out, const Attrs&) { copy_elements(in[0], out[0]); }

void Clone::cpu(Inputs in, Outputs out, const Attrs&) { copy_elements(in[0], out[0]); }

void Copy::cpu(Inputs in, Outputs out, const Attrs&) { copy_elements(in[1], out[0]); }

void Fill::cpu(Inputs, Outputs out, const Attrs& attrs) {
  copy_elements(scalar_operand(attrs.value), out[0]);
}

}  // namespace op

}  // namespace mezzo
