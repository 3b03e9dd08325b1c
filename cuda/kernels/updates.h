// The update formulas of optim/ as kernels, with one launch for many tensors.
#pragma once

#include <utility>
#include <vector>

#include "../../optim/updates.h"
#include "../runtime/device.h"
#include "lists.h"

namespace mezzo::gpu {

/** Updates one run of one item. All operands are written back, so that a formula may change any of
 *  them. */
template <class Update, class C, class Formula, std::size_t... I>
__device__ inline void update_run(const TensorListEntry& x, bool vectors,
                                  const optim::UpdateCall& call, const Formula& formula,
                                  std::int64_t at, int n, std::index_sequence<I...>) {
  C p[kListRun], g[kListRun], s[Update::kStates + 1][kListRun];
  load_items<C>(x, optim::kParam, vectors, at, n, p);
  load_items<C>(x, optim::kGrad, vectors, at, n, g);
  (load_items<C>(x, optim::kState + static_cast<int>(I), vectors, at, n, s[I]), ...);
  const C inv_scale = static_cast<C>(call.inv_scale.value());
#pragma unroll
  for (int k = 0; k < kListRun; ++k)
    if (k < n) {
      g[k] = g[k] * inv_scale;
      formula(p[k], g[k], s[I][k]...);
    }
  if (call.write_back) store_items<C>(x, optim::kGrad, vectors, at, n, g);
  if constexpr ((Update::kWrites & optim::kWritesParam) != 0) {
    store_items<C>(x, optim::kParam, vectors, at, n, p);
    if (x.data[optim::kLowCopy]) store_items<C>(x, optim::kLowCopy, vectors, at, n, p);
  }
  if constexpr ((Update::kWrites & optim::kWritesStates) != 0)
    (store_items<C>(x, optim::kState + static_cast<int>(I), vectors, at, n, s[I]), ...);
}

template <class Update> using UpdateItems = ItemList<typename Update::Settings, optim::UpdateCall>;

template <class Update, class C, unsigned kMode>
__global__ void __launch_bounds__(kListThreads)
    update_kernel(const __grid_constant__ UpdateItems<Update> list) {
  const optim::UpdateCall& call = list.rest;
  if (call.found_inf && *call.found_inf != optim::kAllFinite) return;
  std::int64_t begin;
  const auto& item = list.mine(begin);
  // An absent state (SGD without momentum) is neither loaded nor stored; its formula does not use
  // it.
  typename Update::Settings settings = list.extra(item.extra);
  if constexpr (requires { settings.time.counter; }) settings.time.counter = item.counter;
  const typename Update::template Formula<C, kMode> formula(settings);
  for_each_run_of(item.tensors, begin, [&](std::int64_t at, int n) {
    update_run<Update, C>(item.tensors, item.vectors, call, formula, at, n,
                          std::make_index_sequence<Update::kStates>{});
  });
}

/** Launches the update of items of one mode and one compute type. */
template <class Update, class C, unsigned kMode>
void update_alike(std::span<const TensorListEntry> items,
                  std::span<const typename Update::Settings> settings,
                  const optim::UpdateCall& call) {
  in_lists(items, settings, call, [&](const UpdateItems<Update>& list) {
    launch(&update_kernel<Update, C, kMode>, {.blocks = list.blocks, .threads = kListThreads},
           current_stream(call.device), list);
  });
}

/** Runs an update over all items, grouped by mode and compute type. */
template <class Update>
void update_all(std::span<const TensorListEntry> items, const void* settings,
                const optim::UpdateCall& call) {
  using Settings = typename Update::Settings;
  const auto* given = static_cast<const Settings*>(settings);
  std::vector<TensorListEntry> alike;
  std::vector<Settings> their_settings;
  for (unsigned mode = 0; mode < Update::kModes; ++mode)
    for (const bool wide : {false, true}) {
      alike.clear();
      their_settings.clear();
      for (const TensorListEntry& item : items) {
        const Settings& its = given[item.index];
        if (Update::mode(its) != mode || (item.dtype[optim::kParam] == DType::f64) != wide)
          continue;
        alike.push_back(item);
        their_settings.push_back(its);
      }
      if (alike.empty()) continue;
      optim::with_mode<Update>(mode, [&]<unsigned kMode>() {
        wide ? update_alike<Update, double, kMode>(alike, their_settings, call)
             : update_alike<Update, float, kMode>(alike, their_settings, call);
      });
    }
}

template <class Update> void attach_update() {
  optim::update_row<Update>.kernel[static_cast<std::size_t>(DeviceKind::cuda)] =
      &update_all<Update>;
}

}  // namespace mezzo::gpu
