// The update formulas of optim/ as kernels, with one launch for many tensors, whose last block to
// finish counts the updates and ends the step.
#pragma once

#include <utility>
#include <vector>

#include "../../optim/updates.h"
#include "../runtime/device.h"
#include "last_block.h"
#include "lists.h"

namespace mezzo::gpu {

/** The settings of an update for its kernel. */
struct ListUpdate {
  optim::Factor inv_scale;
  optim::StepEnd end;  // with the flag; the rest only if the kernel counts
  bool write_back = false;
  bool counts = false;  // counts the updates of its items
  bool ends = false;    // ends the step: the last launch of the update
  unsigned mode = 0;    // of the formula, where the kernel has one for all modes
  // If not null, for the sums of squares of each block's parameters, then of their last states.
  double* partials = nullptr;
};

/** True if the update may have to compute norms: UpdateCall::norms. */
template <class Update> inline constexpr bool kMeasures = requires { Update::kMeasures; };

/** Updates an element by the formula of a mode known at run time: one kernel for all modes where a
 *  branch for each element costs little, as in f64. `terms`: those of any mode, as all have the
 *  same. */
template <class Update, unsigned kMode = 0, class Terms, class C, class... States>
__device__ inline void update_in_mode(unsigned mode, const Terms& terms, C& p, C g,
                                      States&... states) {
  if (mode == kMode)
    __builtin_bit_cast(typename Update::template Formula<C, kMode>, terms)(p, g, states...);
  else if constexpr (kMode + 1 < Update::kModes)
    update_in_mode<Update, kMode + 1>(mode, terms, p, g, states...);
}

/** In place of a mode: the kernel is for all modes. */
inline constexpr unsigned kAnyMode = ~0u;

/** Returns true if the formula uses the values of a list. */
template <class Update> constexpr bool reads(std::size_t list) {
  if constexpr (requires { Update::kUnread; })
    return (Update::kUnread >> list & 1u) == 0;
  else
    return true;
}

/** Loads a run of a list. Values that the formula does not use are 0, unless the list
 *  `is_needed`. */
template <class Update, int kList, class C>
__device__ inline void load_list(const TensorListEntry& x, bool vectors, std::int64_t at, int n,
                                 C* values, bool is_needed = false) {
  constexpr bool kReads = reads<Update>(kList);
  if constexpr (!kReads)
    for (int k = 0; k < kListRun; ++k) values[k] = C(0);
  if (kReads || is_needed) load_items<C>(x, kList, vectors, at, n, values);
}

/** Sums of squares of a thread's parameters and last states, for norms. */
struct Squares {
  double of_param = 0, of_state = 0;

  __device__ void add(double param, double state) {
    of_param += param * param;
    of_state += state * state;
  }
};

/** Updates one run of one item. */
template <class Update, class C, class Formula, std::size_t... I>
__device__ inline void update_run(const TensorListEntry& x, bool vectors, const ListUpdate& call,
                                  const Formula& formula, std::int64_t at, int n, Squares& squares,
                                  std::index_sequence<I...>) {
  C p[kListRun], g[kListRun], s[Update::kStates + 1][kListRun];
  load_list<Update, optim::kParam>(x, vectors, at, n, p);
  load_list<Update, optim::kGrad>(x, vectors, at, n, g, call.write_back);
  (load_list<Update, optim::kState + static_cast<int>(I)>(x, vectors, at, n, s[I]), ...);
  const C inv_scale = static_cast<C>(call.inv_scale.value());
#pragma unroll
  for (int k = 0; k < kListRun; ++k)
    if (k < n) {
      g[k] = g[k] * inv_scale;
      formula(p[k], g[k], s[I][k]...);
      if constexpr (kMeasures<Update>)
        squares.add(static_cast<double>(p[k]), static_cast<double>(s[Update::kStates - 1][k]));
    }
  if (call.write_back) store_items<C>(x, optim::kGrad, vectors, at, n, g);
  if constexpr ((Update::kWrites & optim::kWritesParam) != 0) {
    store_items<C>(x, optim::kParam, vectors, at, n, p);
    if (x.data[optim::kLowCopy]) store_items<C>(x, optim::kLowCopy, vectors, at, n, p);
  }
  (((Update::kWrites >> (optim::kState + I) & 1u) != 0
        ? store_items<C>(x, optim::kState + static_cast<int>(I), vectors, at, n, s[I])
        : void()),
   ...);
}

/** Called by all threads at the end of an update that counts. In the last block to finish, when all
 *  have read the counters, rates, scale and flag, counts the update of each item unless the step is
 *  skipped, and ends the step after its last launch. Not inlined, for the registers of the update.
 */
__device__ __noinline__ inline void count_items(const ListItem* items, int count,
                                                const ListUpdate& call, bool skips) {
  MZ_SHARED(int, room, 1);
  if (!is_last_block(&call.end.record->finished_blocks, gridDim.x, room)) return;
  for (int i = static_cast<int>(threadIdx.x); i < count && !skips; i += kListThreads)
    const_cast<optim::UpdateCounter*>(items[i].counter)->advance();
  if (call.ends && threadIdx.x == 0) call.end.run();
}

template <class Update, std::size_t kArguments>
using UpdateItems = ItemList<typename Update::Settings, ListUpdate, kArguments>;

template <class Update, class C, unsigned kMode, std::size_t kArguments>
__global__ void __launch_bounds__(kListThreads)
    update_kernel(const UpdateItems<Update, kArguments> __grid_constant__ list) {
  const ListUpdate& call = list.rest;
  const bool skips = call.end.skips();
  if (!skips) {
    std::int64_t begin;
    const auto& item = list.mine(begin);
    // An absent state (SGD without momentum) is neither loaded nor stored; its formula does not use
    // it.
    typename Update::Settings settings = list.extra(item.extra);
    if constexpr (requires { settings.time.counter; }) settings.time.counter = item.counter;
    const typename Update::template Formula<C, kMode == kAnyMode ? 0 : kMode> terms(settings);
    const auto formula = [&](C& p, C g, auto&... states) {
      if constexpr (kMode == kAnyMode)
        update_in_mode<Update>(call.mode, terms, p, g, states...);
      else
        terms(p, g, states...);
    };
    Squares squares;
    for_each_run_of(item.tensors, begin, [&](std::int64_t at, int n) {
      update_run<Update, C>(item.tensors, item.vectors, call, formula, at, n, squares,
                            std::make_index_sequence<Update::kStates>{});
    });
    if constexpr (kMeasures<Update>)
      if (call.partials) {
        const double of_param = combined(Sum{}, squares.of_param),
                     of_state = combined(Sum{}, squares.of_state);
        if (threadIdx.x == 0) {
          call.partials[blockIdx.x] = of_param;
          call.partials[list.blocks + blockIdx.x] = of_state;
        }
      }
  }
  if (call.counts) count_items(&list.item(0), list.count, call, skips);
}

/** Norms that an update computes. */
struct UpdateNorms {
  const optim::UpdateCall::Norms& wanted;
  std::vector<ItemPartials> items = {};
  std::int64_t partials = 0;

  double* next() const { return wanted.each ? wanted.workspace + partials : nullptr; }
  /** Adds those of a launch. */
  template <class List> void add(const List& list) {
    if (!wanted.each) return;
    for (int i = 0; i < list.count; ++i) {
      const ListItem& item = list.item(i);
      const std::int64_t first = partials + item.first_block,
                         blocks = blocks_for(item.tensors.numel, kListChunk);
      const auto index = static_cast<std::int64_t>(item.tensors.index);
      items.push_back({first, blocks, index});
      items.push_back({first + list.blocks, blocks, wanted.count + index});
    }
    partials += 2 * list.blocks;
  }
};

/** Launches the update of items of one mode and one compute type. `ends`: they are the last. */
template <class Update, class C, unsigned kMode>
void update_alike(std::span<const TensorListEntry> items,
                  std::span<const typename Update::Settings> settings,
                  const optim::UpdateCall& call, unsigned mode, bool ends, UpdateNorms& norms) {
  ListUpdate rest{.inv_scale = call.inv_scale,
                  .end = {.found_inf = call.found_inf},
                  .write_back = call.write_back,
                  .counts = call.end != nullptr,
                  .mode = mode};
  if (call.end) rest.end = *call.end;
  in_lists(items, settings, rest,
           [&]<std::size_t kArguments>(UpdateItems<Update, kArguments>& list, bool is_last) {
             list.rest.ends = ends && is_last;
             list.rest.partials = norms.next();
             launch(&update_kernel<Update, C, kMode, kArguments>,
                    {.blocks = list.blocks, .threads = kListThreads}, current_stream(call.device),
                    list);
             norms.add(list);
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
  std::size_t left = items.size();
  UpdateNorms norms{call.norms};
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
      left -= alike.size();
      if (wide)
        update_alike<Update, double, kAnyMode>(alike, their_settings, call, mode, left == 0, norms);
      else
        optim::with_mode<Update>(mode, [&]<unsigned kMode>() {
          update_alike<Update, float, kMode>(alike, their_settings, call, mode, left == 0, norms);
        });
    }
  if (call.norms.each)
    join_norms(norms.items, 2, call.norms.workspace, call.norms.each,
               call.norms.workspace + norms.partials, current_stream(call.device));
}

template <class Update> void attach_update() {
  optim::update_row<Update>.kernel[static_cast<std::size_t>(DeviceKind::cuda)] =
      &update_all<Update>;
}

}  // namespace mezzo::gpu
