// The CPU kernels of the optimizer updates.
#include "update_chunk_cpu.h"

namespace mezzo::optim {

using namespace blocks;

namespace {

template <class Update>
void update_all(std::span<const TensorListEntry> items, const void* settings,
                const UpdateCall& call) {
  if (call.found_inf && *call.found_inf != kAllFinite) return;
  const auto* each = static_cast<const typename Update::Settings*>(settings);
  for_each_chunk(items, 1.0, [&](const Chunk& chunk, std::size_t) {
    const TensorListEntry& item = items[chunk.item];
    if (item.dtype[kParam] == DType::f64)
      update_f64(std::type_identity<Update>{}, item, chunk, each[item.index], call);
    else
      update_in<Update, float>(item, chunk, each[item.index], call);
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
