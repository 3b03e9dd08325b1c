// The loops of the optimizer updates over a chunk of one tensor on the CPU.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "../../tensor/cpu/elementwise_kernel.h"
#include "../updates.h"
#include "blocks_cpu.h"

namespace mezzo::optim::blocks {

template <class V, class Formula, class... States>
void update_block(const Formula& formula, V inv_scale, V* p, const V* g, std::int64_t n,
                  States*... states) {
  MZ_INDEPENDENT_LOOP
  for (std::int64_t k = 0; k < n; ++k) formula(p[k], g[k] * inv_scale, states[k]...);
}

/** Multiplies the gradient in place. Rounds it into memory, but keeps the unrounded values in the
 *  block. */
template <class V> void write_back(const Block<V>& grad, V* g, V inv_scale, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) g[k] = g[k] * inv_scale;
  grad.store(n);
}

inline void copy_low(const TensorListEntry& item, DType from, const void* p, std::int64_t begin,
                     std::int64_t n) {
  const DType low = item.dtype[kLowCopy];
  char* at =
      static_cast<char*>(item.data[kLowCopy]) + begin * static_cast<std::int64_t>(item_size(low));
  cpu_kernels::convert(from, p, low, at, n);
}

template <class Update, class V, class Formula>
void update_chunk(const TensorListEntry& item, const Chunk& chunk, const Formula& formula,
                  const UpdateCall& call) {
  constexpr bool kStoresParam = (Update::kWrites & kWritesParam) != 0;
  const V inv_scale = static_cast<V>(call.inv_scale.value());
  Block<V> param, grad;
  std::array<Block<V>, Update::kStates> states;
  for (std::int64_t begin = chunk.begin; begin < chunk.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, chunk.end - begin);
    V* p = param.open(item, kParam, begin, n, true);
    V* g = grad.open(item, kGrad, begin, n, true);
    if (call.write_back) write_back(grad, g, inv_scale, n);
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      update_block<V>(formula, call.write_back ? V{1} : inv_scale, p, g, n,
                      states[kIndex].open(item, kState + kIndex, begin, n, true)...);
    }(std::make_index_sequence<Update::kStates>());
    if constexpr (kStoresParam) {
      param.store(n);
      if (item.data[kLowCopy]) copy_low(item, dtype_of<V>(), p, begin, n);
    }
  }
}

template <class Update, class V>
void update_in(const TensorListEntry& item, const Chunk& chunk,
               const typename Update::Settings& settings, const UpdateCall& call) {
  with_mode<Update>(Update::mode(settings), [&]<unsigned kMode>() {
    const typename Update::template Formula<V, kMode> formula(settings);
    update_chunk<Update, V>(item, chunk, formula, call);
  });
}

}  // namespace mezzo::optim::blocks

namespace mezzo::optim {

/** Updates a chunk of f64 parameters. */
#define MZ_DECLARE_F64(Update)                                                           \
  void update_f64(std::type_identity<Update>, const TensorListEntry& item,               \
                  const blocks::Chunk& chunk, const typename Update::Settings& settings, \
                  const UpdateCall& call);
MZ_FOR_EACH_UPDATE(MZ_DECLARE_F64)
#undef MZ_DECLARE_F64

}  // namespace mezzo::optim
