// List arithmetic: axpby with its check for non-finite elements, and norms in two launches.
#include "lists.h"

#include "../../optim/step/norm_sums.h"
#include "../attach.h"
#include "../runtime/device.h"
#include "host_lines.h"

namespace mezzo::gpu {

namespace {

using optim::AxpbyCall;
using optim::NonfiniteWord;
using optim::NormCall;

enum AxpbyList : int { kX, kY, kOut };

struct Nothing {
  bool operator==(const Nothing&) const = default;
};

template <class Rest, class F>
void for_lists(std::span<const TensorListEntry> items, const Rest& rest, const F& run) {
  const std::vector<Nothing> nothing(items.size());
  in_lists(items, std::span<const Nothing>(nothing), rest, run);
}

/** Returns the items with compute type f64, or the others. */
template <class IsWide>
std::vector<TensorListEntry> of_width(std::span<const TensorListEntry> items, bool wide,
                                      const IsWide& is_wide) {
  std::vector<TensorListEntry> out;
  for (const TensorListEntry& item : items)
    if (is_wide(item) == wide) out.push_back(item);
  return out;
}

// ---- axpby --------------------------------------------------------------------------------------

template <std::size_t kArguments> using AxpbyItems = ItemList<Nothing, AxpbyCall, kArguments>;

template <class C> __device__ inline bool finite(C x) { return x - x == 0; }

/** The first non-finite element of a thread. */
template <class C> struct FirstNonfinite {
  std::int64_t at = -1;
  C value = 0;

  __device__ void look_at(std::int64_t element, C x) {
    if (at >= 0 || finite(x)) return;
    at = element;
    value = x;
  }
  /** Notes it in the flag, if there is one that has no earlier one. */
  __device__ void note(const TensorListEntry& x, NonfiniteWord* found_inf) const {
    if (at < 0 || !found_inf) return;
    const NonfiniteWord word = optim::nonfinite_word(x.index, at, value);
    if (word > *static_cast<const volatile NonfiniteWord*>(found_inf)) atomicMax(found_inf, word);
  }
};

template <class C, std::size_t kArguments>
__global__ void __launch_bounds__(kListThreads)
    axpby_kernel(const AxpbyItems<kArguments> __grid_constant__ list) {
  const AxpbyCall& call = list.rest;
  std::int64_t begin;
  const auto& item = list.mine(begin);
  const TensorListEntry& x = item.tensors;
  FirstNonfinite<C> bad;
  if (!x.data[kOut]) {
    for_each_loaded_run<C>(x, kX, item.vectors, begin,
                           [&](std::int64_t at, int n, const C(&xs)[kListRun]) {
#pragma unroll
                             for (int k = 0; k < kListRun; ++k)
                               if (k < n) bad.look_at(at + k, xs[k]);
                           });
    return bad.note(x, call.found_inf);
  }
  const bool has_y = x.data[kY] != nullptr;
  const bool checks = call.found_inf != nullptr;
  const C a = static_cast<C>(call.a.value()), b = static_cast<C>(call.b.value());
  for_each_run_of(x, begin, [&](std::int64_t at, int n) {
    C xs[kListRun], ys[kListRun], out[kListRun];
    load_items<C>(x, kX, item.vectors, at, n, xs);
    load_items<C>(x, kY, item.vectors, at, n, ys);
#pragma unroll
    for (int k = 0; k < kListRun; ++k) {
      if (k >= n) continue;
      if (checks) bad.look_at(at + k, xs[k]);
      out[k] = has_y ? a * xs[k] + b * ys[k] : a * xs[k];
    }
    store_items<C>(x, kOut, item.vectors, at, n, out);
  });
  bad.note(x, call.found_inf);
}

void axpby(std::span<const TensorListEntry> items, const AxpbyCall& call) {
  const auto is_wide = [](const TensorListEntry& item) {
    return item.dtype[item.data[kOut] ? kOut : kX] == DType::f64;
  };
  for (const bool wide : {false, true})
    for_lists(of_width(items, wide, is_wide), call,
              [&]<std::size_t kArguments>(const AxpbyItems<kArguments>& list, bool) {
                launch(wide ? &axpby_kernel<double, kArguments> : &axpby_kernel<float, kArguments>,
                       {.blocks = list.blocks, .threads = kListThreads},
                       current_stream(call.device), list);
              });
}

// ---- norms --------------------------------------------------------------------------------------

/** Returns the larger of two magnitudes; NaN wins. */
__device__ inline double larger(double a, double b) { return b > a || b != b ? b : a; }

struct NormKind {
  double p;
  bool is_max;

  __device__ double power(double x) const {
    if (is_max) return fabs(x);
    return p == 2 ? x * x : pow(fabs(x), p);
  }
  __device__ double combine(double a, double b) const {
    if (!is_max) return a + b;
    return a != a ? a : larger(a, b);
  }
  __device__ double root(double sum) const {
    if (is_max) return sum;
    return p == 2 ? sqrt(sum) : pow(sum, 1 / p);
  }
  /** Returns the norm that a partial stands for: norm_sums.h. */
  __device__ double norm(double partial) const {
    return optim::is_norm(partial) ? optim::norm_of(partial) : root(partial);
  }
};

NormKind kind_of(double p) { return {p, p > 1e300}; }

struct PartialNorms {
  NormKind kind;
  optim::Factor inv_scale;
  double* partials;  // one per block
};
template <std::size_t kArguments> using NormItems = ItemList<Nothing, PartialNorms, kArguments>;

/** Returns the sum of powers of the block's chunk, or its largest magnitude. */
template <class C, std::size_t kArguments>
__device__ inline double sum_of_chunk(const NormItems<kArguments>& list) {
  const PartialNorms& call = list.rest;
  std::int64_t begin;
  const auto& item = list.mine(begin);
  const C factor = static_cast<C>(call.inv_scale.value());
  double sum = 0;
  for_each_loaded_run<C>(
      item.tensors, kX, item.vectors, begin, [&](std::int64_t, int n, const C(&xs)[kListRun]) {
#pragma unroll
        for (int k = 0; k < kListRun; ++k)
          if (k < n)
            sum = call.kind.combine(sum, call.kind.power(static_cast<double>(xs[k] * factor)));
      });
  return combined(call.kind, sum);
}

/** Returns the partial of a chunk whose sum of powers is out of range, as norm_sums.h: `sum`, or
 *  the negative norm, scaled by the largest magnitude. */
template <class C, std::size_t kArguments>
__device__ __noinline__ double scaled_partial(const NormItems<kArguments>& list, double sum) {
  const PartialNorms& call = list.rest;
  const NormKind magnitude{0, true};
  std::int64_t begin;
  const auto& item = list.mine(begin);
  const C factor = static_cast<C>(call.inv_scale.value());
  const auto over_elements = [&](auto&& f) {
    for_each_run_of(item.tensors, begin, [&](std::int64_t at, int n) {
      C xs[kListRun];
      load_items<C>(item.tensors, kX, item.vectors, at, n, xs);
      for (int k = 0; k < n; ++k) f(fabs(static_cast<double>(xs[k] * factor)));
    });
  };
  double mine = 0;
  over_elements([&](double x) { mine = magnitude.combine(mine, x); });
  const double largest = combined(magnitude, mine);
  if (!optim::can_divide_by(largest)) return sum;
  mine = 0;
  over_elements([&](double x) { mine += call.kind.power(x / largest); });
  return optim::norm_partial(largest * call.kind.root(combined(call.kind, mine)));
}

template <class C, std::size_t kArguments>
__global__ void __launch_bounds__(kListThreads)
    partial_norm_kernel(const NormItems<kArguments> __grid_constant__ list) {
  const double all = sum_of_chunk<C>(list);
  if (threadIdx.x == 0) list.rest.partials[blockIdx.x] = all;
}
/** Does the same where powers may leave the range of f64. */
template <class C, std::size_t kArguments>
__global__ void __launch_bounds__(kListThreads)
    scaled_norm_kernel(const NormItems<kArguments> __grid_constant__ list) {
  double all = sum_of_chunk<C>(list);
  if (optim::is_out_of_range<C>(all, list.rest.kind.p)) all = scaled_partial<C>(list, all);
  if (threadIdx.x == 0) list.rest.partials[blockIdx.x] = all;
}

constexpr int kMostPartials = 128;
struct FinishCall {
  NormKind kind;
  const double* partials;
  double* each;
  double* sums;  // sums of the items before the root, in order
  ItemPartials items[kMostPartials];
};

/** Returns one partial of `count` partials, as norm_sums.h, on all threads. */
__device__ inline double combined_partials(const NormKind& kind, const double* partials,
                                           std::int64_t count) {
  double sum = 0;
  int has_norms = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kListThreads) {
    sum = kind.combine(sum, partials[i]);
    has_norms |= optim::is_norm(partials[i]);
  }
  const double all = combined(kind, sum);
  if (!__syncthreads_or(has_norms)) return all;
  const NormKind magnitude{0, true};
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kListThreads)
    mine = magnitude.combine(mine, kind.norm(partials[i]));
  const double largest = combined(magnitude, mine);
  if (!optim::can_divide_by(largest)) return largest;
  mine = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kListThreads)
    mine += kind.power(kind.norm(partials[i]) / largest);
  return optim::norm_partial(largest * kind.root(combined(kind, mine)));
}

/** Computes the norm of each item from its partials, one block per item. */
__global__ void __launch_bounds__(kListThreads)
    item_norm_kernel(const FinishCall __grid_constant__ call) {
  const ItemPartials& item = call.items[blockIdx.x];
  const double all = combined_partials(call.kind, call.partials + item.first, item.count);
  if (threadIdx.x != 0) return;
  call.each[item.index] = call.kind.norm(all);
  call.sums[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kListThreads)
    total_norm_kernel(NormKind kind, const double* sums, std::int64_t count, double* total,
                      float* found_inf) {
  const double all = combined_partials(kind, sums, count);
  if (threadIdx.x != 0) return;
  *total = kind.norm(all);
  if (found_inf && !finite(*total)) *found_inf = 1;
}

std::int64_t blocks_of(std::span<const TensorListEntry> items) {
  std::int64_t blocks = 0;
  for (const TensorListEntry& item : items) blocks += blocks_for(item.numel, kListChunk);
  return blocks;
}

/** Launches the first step: one partial per block. Items are in order, those with compute type f32
 *  before those with f64. */
void partial_norms(std::span<const TensorListEntry> items, bool wide, PartialNorms call,
                   runtime::Stream stream) {
  const double p = call.kind.p;
  for_lists(items, call, [&]<std::size_t kArguments>(NormItems<kArguments>& list, bool) {
    const auto kernel =
        wide && optim::may_leave_range<double>(p) ? &scaled_norm_kernel<double, kArguments>
        : wide                                    ? &partial_norm_kernel<double, kArguments>
        : optim::may_leave_range<float>(p)        ? &scaled_norm_kernel<float, kArguments>
                                                  : &partial_norm_kernel<float, kArguments>;
    list.rest.partials = call.partials;
    launch(kernel, {.blocks = list.blocks, .threads = kListThreads}, stream, list);
    call.partials += list.blocks;
  });
}

/** Returns the workspace size of norms: one f64 per block, then one per item. */
std::int64_t norm_workspace(std::span<const TensorListEntry> items) {
  const std::int64_t sums = blocks_of(items) + static_cast<std::int64_t>(items.size());
  return sums * static_cast<std::int64_t>(sizeof(double));
}

void norms(std::span<const TensorListEntry> items, const NormCall& call) {
  const runtime::Stream stream = current_stream(call.device);
  const NormKind kind = kind_of(call.p);
  const auto is_wide = [](const TensorListEntry& item) { return item.dtype[kX] == DType::f64; };
  std::vector<TensorListEntry> ordered = of_width(items, false, is_wide);
  const std::size_t narrow = ordered.size();
  for (const TensorListEntry& item : of_width(items, true, is_wide)) ordered.push_back(item);
  const std::span<const TensorListEntry> all(ordered);

  auto* at = static_cast<double*>(call.workspace);
  double* const sums = at + blocks_of(all);
  partial_norms(all.first(narrow), false, {kind, call.inv_scale, at}, stream);
  partial_norms(all.subspan(narrow), true,
                {kind, call.inv_scale, at + blocks_of(all.first(narrow))}, stream);

  std::vector<ItemPartials> partials;
  std::int64_t first = 0;
  for (const TensorListEntry& item : all) {
    const std::int64_t count = blocks_for(item.numel, kListChunk);
    partials.push_back({first, count, static_cast<std::int64_t>(item.index)});
    first += count;
  }
  join_norms(partials, call.p, at, call.each, sums, stream);
  launch(&total_norm_kernel, {.blocks = 1, .threads = kListThreads}, stream, kind,
         static_cast<const double*>(sums), static_cast<std::int64_t>(all.size()), call.total,
         call.found_inf);
}

}  // namespace

void join_norms(std::span<const ItemPartials> items, double p, const double* partials, double* each,
                double* sums, runtime::Stream stream) {
  for (std::size_t i = 0; i < items.size(); i += kMostPartials) {
    const auto some = items.subspan(i, std::min<std::size_t>(items.size() - i, kMostPartials));
    FinishCall finish{kind_of(p), partials, each, sums + i, {}};
    std::copy(some.begin(), some.end(), finish.items);
    launch(&item_norm_kernel,
           {.blocks = static_cast<std::int64_t>(some.size()), .threads = kListThreads}, stream,
           finish);
  }
}

void attach_lists() {
  optim::list_kernels(DeviceKind::cuda) = {.axpby = &axpby,
                                           .norm = &norms,
                                           .norm_workspace = &norm_workspace,
                                           .factored_root = &factored_root};
}

}  // namespace mezzo::gpu
