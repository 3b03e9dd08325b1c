// Lists of tensors as kernel arguments: items by value, cut into chunks, one block per chunk.
// Parsed by g++ and by nvcc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "../../optim/step/step_record.h"
#include "../../optim/step/tensor_list.h"
#include "typed.h"

namespace mezzo::gpu {

using optim::TensorListEntry;

inline constexpr int kListThreads = 256;
/** Adjacent elements that a thread processes together. */
inline constexpr int kListRun = 4;
/** Elements per block. */
inline constexpr std::int64_t kListChunk = 4 * kListRun * kListThreads;

/** Bytes of the arguments of a kernel over a list that is short. Each launch copies all of them. */
inline constexpr std::size_t kFewArgumentBytes = 4096;
/** Bytes of those of a kernel over a long list: the most that CUDA allows, which is 4096 before
 *  12.1. */
#if defined(__CUDACC__) && __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ == 0
inline constexpr std::size_t kMostArgumentBytes = kFewArgumentBytes;
#else
inline constexpr std::size_t kMostArgumentBytes = 32764;
#endif

/** An item of a list. */
struct ListItem {
  TensorListEntry tensors;
  const optim::UpdateCounter* counter;  // of the parameter, or null
  std::int32_t first_block;
  std::int16_t extra;  // the number of its extra data
  bool vectors;        // every tensor allows vector access
};

/** Some items of a list with their extra data; as many as fit into `kArguments` bytes of a kernel's
 *  arguments beside `Rest`. Items with equal extra data share them. An item without elements has
 *  one block. */
template <class Extra, class Rest, std::size_t kArguments> struct ItemList {
  // Items from the front, extra data from the back.
  static constexpr std::size_t kBytes = (kArguments - sizeof(Rest) - 16) / 8 * 8;
  static_assert(kBytes >= 8 * (sizeof(ListItem) + sizeof(Extra)));
  static_assert(std::is_trivially_destructible_v<Extra> && alignof(Extra) <= 8);

  int count = 0, extras = 0;
  std::int64_t blocks = 0;
  Rest rest;
  alignas(8) unsigned char bytes[kBytes];

  MZ_HD const ListItem& item(int i) const { return reinterpret_cast<const ListItem*>(bytes)[i]; }
  MZ_HD const Extra& extra(int i) const {
    return *reinterpret_cast<const Extra*>(bytes + kBytes - (i + 1) * sizeof(Extra));
  }

  /** Adds an item. Returns false if it does not fit. */
  bool add(const TensorListEntry& tensors, Extra its, bool vectors) {
    const optim::UpdateCounter* counter = nullptr;  // each parameter has its own
    if constexpr (requires { its.time.counter; })
      counter = std::exchange(its.time.counter, nullptr);
    int which = 0;
    while (which < extras && !(extra(which) == its)) ++which;
    const int needed = std::max(extras, which + 1);
    if ((count + 1) * sizeof(ListItem) + needed * sizeof(Extra) > kBytes) return false;
    const ListItem added{tensors, counter, static_cast<std::int32_t>(blocks),
                         static_cast<std::int16_t>(which), vectors};
    std::memcpy(bytes + count++ * sizeof(ListItem), &added, sizeof added);
    if (which == extras) new (bytes + kBytes - ++extras * sizeof(Extra)) Extra(its);
    blocks += std::max<std::int64_t>(1, blocks_for(tensors.numel, kListChunk));
    return true;
  }
  void clear() {
    count = extras = 0;
    blocks = 0;
  }

  /** Returns the item of the calling block and sets `begin` to its first element. */
  __device__ const ListItem& mine(std::int64_t& begin) const {
    const auto block = static_cast<std::int32_t>(blockIdx.x);
    int found = 0, beyond = count;
    while (beyond - found > 1) {
      const int middle = (found + beyond) / 2;
      (item(middle).first_block <= block ? found : beyond) = middle;
    }
    begin = std::int64_t{block - item(found).first_block} * kListChunk;
    return item(found);
  }
};

/** Combines one value per thread by kind.combine(), in a fixed order. All threads of the block must
 *  call it. */
template <class Kind> __device__ inline double combined(const Kind& kind, double value) {
  MZ_SHARED(double, values, kListThreads);
  values[threadIdx.x] = value;
  for (int width = kListThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < width)
      values[threadIdx.x] = kind.combine(values[threadIdx.x], values[threadIdx.x + width]);
  }
  __syncthreads();
  const double all = values[0];
  __syncthreads();  // values are written again by the next call
  return all;
}
struct Sum {
  __device__ double combine(double a, double b) const { return a + b; }
};

/** The partials of an item's norm, one of each block. */
struct ItemPartials {
  std::int64_t first, count, index;
};
/** Sets each[index] of the items to the norm of order p, and `sums` to what it is the root of, in
 *  order. */
void join_norms(std::span<const ItemPartials> items, double p, const double* partials, double* each,
                double* sums, runtime::Stream stream);

/** ListKernels::factored_root. */
void factored_root(Tensor grad, const Tensor& rows, const Tensor& columns, const Tensor& mean,
                   double eps);

/** Returns true if all tensors of an item are aligned for vector access. */
inline bool takes_vectors(const TensorListEntry& item) {
  for (std::size_t i = 0; i < TensorListEntry::kMaxLists; ++i) {
    const std::size_t word = std::min<std::size_t>(16, kListRun * item_size(item.dtype[i]));
    if (item.data[i] && reinterpret_cast<std::uintptr_t>(item.data[i]) % word != 0) return false;
  }
  return true;
}

/** Calls run(list, is_last) for one short list of all items where it holds them, else for long
 *  lists of as many items as fit; extras[i] belongs to items[i]. */
template <class Extra, class Rest, class Run>
void in_lists(std::span<const TensorListEntry> items, std::span<const Extra> extras,
              const Rest& rest, const Run& run) {
  if (items.empty()) return;
  const auto add = [&](auto& list, std::size_t i) {
    return list.add(items[i], extras[i], takes_vectors(items[i]));
  };
  ItemList<Extra, Rest, kFewArgumentBytes> few{};
  static_assert(sizeof few <= kFewArgumentBytes);
  few.rest = rest;
  std::size_t added = 0;
  while (added < items.size() && add(few, added)) ++added;
  if (added == items.size()) return run(few, true);

  ItemList<Extra, Rest, kMostArgumentBytes> list{};
  static_assert(sizeof list <= kMostArgumentBytes);
  list.rest = rest;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (add(list, i)) continue;
    run(list, false);
    list.clear();
    add(list, i);
  }
  run(list, true);
}

/** load_items and store_items element by element. Not inlined, so that each kernel contains only
 *  the fast path. */
template <class C>
__device__ __noinline__ void load_slowly(const void* data, DType dtype, std::int64_t at, int n,
                                         C* values) {
  for (int k = 0; k < n; ++k) values[k] = load_element<C>(data, dtype, at + k);
}
template <class C>
__device__ __noinline__ void store_slowly(void* data, DType dtype, std::int64_t at, int n,
                                          const C* values) {
  for (int k = 0; k < n; ++k) store_element<C>(data, dtype, at + k, values[k]);
}

/** Calls f(type) with the storage type of a list whose runs are moved as vectors: C, or 16 bits for
 *  f32. Returns false for other types. */
template <class C, class F> __device__ inline bool with_vectors(DType dtype, F&& f) {
  if (dtype == dtype_of<C>()) return f(std::type_identity<C>{}), true;
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == DType::f16) return f(std::type_identity<Half>{}), true;
    if (dtype == DType::bf16) return f(std::type_identity<BFloat16>{}), true;
  }
  return false;
}

/** Loads a run from an aligned place, converted to C. */
template <class C, class T> __device__ inline void load_vector(const T* from, C* values) {
  if constexpr (std::is_same_v<C, float> && sizeof(T) == 2) {
    load_part<kListRun>(from, values);
  } else {
    const auto run = *reinterpret_cast<const Pack<C, kListRun>*>(from);
#pragma unroll
    for (int k = 0; k < kListRun; ++k) values[k] = run.item[k];
  }
}

/** Stores a run to an aligned place. */
template <class C, class T> __device__ inline void store_vector(T* to, const C* values) {
  if constexpr (std::is_same_v<C, float>) {
    store_values<kListRun>(to, values);
  } else {
    Pack<T, kListRun> pack;
#pragma unroll
    for (int k = 0; k < kListRun; ++k) pack.item[k] = values[k];
    *reinterpret_cast<Pack<T, kListRun>*>(to) = pack;
  }
}

/** Loads elements [at, at + n) of a tensor, n <= kListRun. */
template <class C>
__device__ inline void load_items(const TensorListEntry& x, int list, bool vectors, std::int64_t at,
                                  int n, C* values) {
  const void* data = x.data[list];
  if (!data) return;  // absent state
  const auto load = [&]<class T>(std::type_identity<T>) {
    load_vector(static_cast<const T*>(data) + at, values);
  };
  if (vectors && n == kListRun && with_vectors<C>(x.dtype[list], load)) return;
  C slow[kListRun];
  load_slowly<C>(data, x.dtype[list], at, n, slow);
#pragma unroll
  for (int k = 0; k < kListRun; ++k)
    if (k < n) values[k] = slow[k];
}

template <class C>
__device__ inline void store_items(const TensorListEntry& x, int list, bool vectors,
                                   std::int64_t at, int n, const C* values) {
  void* data = x.data[list];
  if (!data) return;
  const auto store = [&]<class T>(std::type_identity<T>) {
    store_vector(static_cast<T*>(data) + at, values);
  };
  if (vectors && n == kListRun && with_vectors<C>(x.dtype[list], store)) return;
  C slow[kListRun];
#pragma unroll
  for (int k = 0; k < kListRun; ++k) slow[k] = values[k];
  store_slowly<C>(data, x.dtype[list], at, n, slow);
}

/** Calls f(at, n) for the runs of the calling thread within the chunk that begins at `begin`. */
template <class F>
__device__ inline void for_each_run_of(const TensorListEntry& x, std::int64_t begin, F&& f) {
  const std::int64_t end = begin + kListChunk < x.numel ? begin + kListChunk : x.numel;
  for (std::int64_t at = begin + static_cast<std::int64_t>(threadIdx.x) * kListRun; at < end;
       at += kListRun * kListThreads)
    f(at, end - at < kListRun ? static_cast<int>(end - at) : kListRun);
}

/** Calls f(at, n, values) for the same runs with the elements of a list, converted to C. All runs
 * of a thread are loaded before the first call where vector access allows it. */
template <class C, class F>
__device__ inline void for_each_loaded_run(const TensorListEntry& x, int list, bool vectors,
                                           std::int64_t begin, F&& f) {
  constexpr int kStep = kListRun * kListThreads, kRuns = static_cast<int>(kListChunk / kStep);
  const std::int64_t first = begin + static_cast<std::int64_t>(threadIdx.x) * kListRun;
  C held[kRuns][kListRun];
  const auto load = [&]<class T>(std::type_identity<T>) {
    const T* const from = static_cast<const T*>(x.data[list]) + first;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) load_vector(from + i * kStep, held[i]);
  };
  if (vectors && begin + kListChunk <= x.numel && with_vectors<C>(x.dtype[list], load)) {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) f(first + i * kStep, kListRun, held[i]);
    return;
  }
  for_each_run_of(x, begin, [&](std::int64_t at, int n) {
    load_items<C>(x, list, vectors, at, n, held[0]);
    f(at, n, held[0]);
  });
}

}  // namespace mezzo::gpu
