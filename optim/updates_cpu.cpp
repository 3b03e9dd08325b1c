// The CPU kernels of the optimizer updates: the loop around the formulas.
#include <array>

#include "../tensor/cpu/elementwise_kernel.h"
#include "blocks_cpu.h"
#include "updates.h"

namespace mezzo::optim {

using namespace blocks;

namespace {

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

void copy_low(const TensorListEntry& item, DType from, const void* p, std::int64_t begin,
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
    }
    (std::make_index_sequence<Update::kStates>());
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

template <class Update>
void update_all(std::span<const TensorListEntry> items, const void* settings,
                const UpdateCall& call) {
  if (call.found_inf && *call.found_inf != NonfiniteLocation::kNone) return;
  const auto* each = static_cast<const typename Update::Settings*>(settings);
  for_each_chunk(items, 1.0, [&](const Chunk& chunk, std::size_t) {
    const TensorListEntry& item = items[chunk.item];
    if (item.dtype[kParam] == DType::f64)
      update_in<Update, double>(item, chunk, each[chunk.item], call);
    else
      update_in<Update, float>(item, chunk, each[chunk.item], call);
  });
}

}  // namespace

#define MZ_CPU_KERNEL(Update)                                                    \
  void Update::cpu(std::span<const TensorListEntry> items, const void* settings, \
                   const UpdateCall& call) {                                     \
    update_all<Update>(items, settings, call);                                   \
  }
MZ_FOR_EACH_UPDATE(MZ_CPU_KERNEL)
#undef MZ_CPU_KERNEL

}  // namespace mezzo::optim
