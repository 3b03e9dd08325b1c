// Batch norm of tensors whose channels are innermost, in 16-byte packs: a matrix with one row of
// channels per position. The forward pass of training and the backward pass are three launches
// each: sums over chunks of rows, their totals, and the pass that writes the result. With given
// statistics the forward pass is the last of these. Everything else is left to channel_norm.h and
// channel_packs.h.
#pragma once

#include "../../tensor/ops/elementwise/activation.h"
#include "norm/channel_norm.h"
#include "typed.h"

namespace mezzo::gpu {

/** Returns true for a matrix of whole packs that is large enough to be worth more launches than the
 *  one of small channels; it `sums` over the rows unless statistics are given. Operands are copied
 *  to aligned memory, so that bits depend on the shape alone. */
inline bool takes_rows(const Sizes& s, DType dtype, bool sums) {
  constexpr std::int64_t kLeast = 1 << 20;  // elements
  return s.inner == 1 && s.samples * s.channels >= (sums ? kLeast : 1) &&
         are_packs(s.channels, dtype);
}

/** Distribution of a matrix over blocks. A block works on a chunk of the rows of up to a warp's
 *  width of packs; neighbouring threads work on neighbouring packs. */
struct RowChunks {
  std::int64_t rows = 0, channels = 0;
  Spread spread = {};
  std::int64_t groups = 1, chunks = 1, chunk_rows = 0;

  /** At most `blocks` per multiprocessor of an H100: those that it runs at once, or a multiple of
   *  them. The chunks depend on the sizes alone, and so does the order of all sums. */
  RowChunks(std::int64_t its_rows, std::int64_t its_channels, DType dtype, int blocks)
      : rows(its_rows), channels(its_channels) {
    constexpr std::int64_t kLeast = 8;  // rows of a thread
    const std::int64_t packs = channels / elements_per_pack(dtype);
    const auto slots =
        std::min<std::uint64_t>(kWarpSize, std::bit_ceil(static_cast<std::uint64_t>(packs)));
    spread.slots = static_cast<int>(slots);
    spread.parts = kSpreadThreads / spread.slots;
    spread.across = true;
    groups = blocks_for(packs, spread.slots);
    const std::int64_t wave = kPlenty / 4 * blocks,
                       wanted = std::clamp<std::int64_t>(wave / groups, 1,
                                                         blocks_for(rows, spread.parts * kLeast));
    chunk_rows = blocks_for(rows, wanted);
    chunks = blocks_for(rows, chunk_rows);
  }
  std::int64_t partials() const { return chunks * channels; }
  Grid grid() const { return {.blocks = groups * chunks, .threads = spread.threads()}; }
};

/** The calling thread's pack of channels and its rows. */
template <class T> struct RowWalk {
  const RowChunks& all;
  Role at;
  std::int64_t chunk, channel, begin, end;  // first channel of the pack; range of rows

  __device__ explicit RowWalk(const RowChunks& c) : all(c), at(role_in(c.spread)) {
    const Split place(blockIdx.x, c.chunks);
    chunk = place.rest;
    channel = (place.quotient * c.spread.slots + at.slot) * kPerPack<T>;
    begin = chunk * c.chunk_rows;
    end = channel >= c.channels ? begin : std::min(begin + c.chunk_rows, c.rows);
  }
  __device__ bool has_channels() const { return channel < all.channels; }

  /** Calls f(n, offsets) for n rows of the thread at a time, then for the rest one by one: n is a
   *  constant, and the offsets are those of its packs. */
  template <int most, class F> __device__ void for_each(F&& f) const {
    const std::int64_t step = all.spread.parts * all.channels, last = end * all.channels + channel;
    std::int64_t place = (begin + at.part) * all.channels + channel;
    const auto call = [&]<int n>(std::integral_constant<int, n> count) {
      std::int64_t places[n];
#pragma unroll
      for (int i = 0; i < n; ++i) places[i] = place + i * step;
      f(count, places);
      place += n * step;
    };
#pragma unroll 1
    while (place + (most - 1) * step < last) call(std::integral_constant<int, most>{});
#pragma unroll 1
    while (place < last) call(std::integral_constant<int, 1>{});
  }
};

/** The states of a pack's channels. An odd number of words, which avoids bank conflicts. */
template <class State, int width> struct PackStates {
  State of[width];
  float padding;
};

template <class State, int width, class Combine> struct CombinePacks {
  Combine combine;
  __device__ PackStates<State, width> operator()(PackStates<State, width> a,
                                                 const PackStates<State, width>& b) const {
#pragma unroll
    for (int k = 0; k < width; ++k) a.of[k] = combine(a.of[k], b.of[k]);
    return a;
  }
};

/** Combines the states of the block's threads and writes those of the chunk, one per channel. All
 *  threads of the block must call it. */
template <class T, class State, int width, class Combine>
__device__ void write_partial(const RowWalk<T>& walk, PackStates<State, width>* room,
                              const PackStates<State, width>& own, const Combine& combine,
                              State* partial) {
  const auto all =
      joined(walk.all.spread, walk.at, room, own, CombinePacks<State, width, Combine>{combine});
  if (!walk.has_channels() || walk.at.part != 0) return;
#pragma unroll
  for (int k = 0; k < width; ++k)
    partial[walk.chunk * walk.all.channels + walk.channel + k] = all.of[k];
}

/** Threads per channel and channels per block where the states of chunks are combined. */
MZ_HD constexpr Spread join_spread() {
  return {.slots = 2, .parts = kSpreadThreads / 2, .across = true};
}

inline Grid join_grid(std::int64_t channels) {
  return {.blocks = blocks_for(channels, join_spread().slots), .threads = kSpreadThreads};
}

/** Combines the chunks of the calling thread's channel, for all its threads. */
template <class State, class Combine>
__device__ State joined_rows(const RowChunks& rows, const State* partial, State* room,
                             std::int64_t channel, Role at, const Combine& combine) {
  State state{};
  if (channel < rows.channels)
    for (std::int64_t i = at.part; i < rows.chunks; i += join_spread().parts)
      state = combine(state, partial[i * rows.channels + channel]);
  return joined(join_spread(), at, room, state, combine);
}

// ---- forward ------------------------------------------------------------------------------------

/** Moments of a pack's channels, of equally many values each. */
template <int width> struct PackMoments {
  float count = 0, mean[width] = {}, squares[width] = {};

  /** Adds n values per channel: their moments in two passes, combined by the formula of Chan, Golub
   *  and LeVeque. */
  template <int n> __device__ void add(const float (&values)[n][width]) {
    count += n;
    const float share = n / count, weight = (count - n) * share;
#pragma unroll
    for (int k = 0; k < width; ++k) {
      float sum = values[0][k];
#pragma unroll
      for (int i = 1; i < n; ++i) sum += values[i][k];
      const float own = sum * (1.0f / n);
      float around = 0;
#pragma unroll
      for (int i = 0; i < n; ++i) around += (values[i][k] - own) * (values[i][k] - own);
      const float step = own - mean[k];
      mean[k] += step * share;
      squares[k] += around + step * (step * weight);
    }
  }
};

inline constexpr int kMomentsResident = 3;

template <class T>
__global__ void __launch_bounds__(kSpreadThreads, kMomentsResident)
    packed_moments_kernel(const RowChunks __grid_constant__ rows, const T* x,
                          MomentsState<float>* partial) {
  constexpr int kWidth = kPerPack<T>, kRows = 4;
  using States = PackStates<MomentsState<float>, kWidth>;
  MZ_SHARED(States, room, kSpreadThreads);
  const RowWalk<T> walk(rows);
  PackMoments<kWidth> moments;
  walk.template for_each<kRows>(
      [&]<int n>(std::integral_constant<int, n>, const std::int64_t(&places)[n]) {
        float values[n][kWidth];
#pragma unroll
        for (int i = 0; i < n; ++i) load_values<kWidth>(x + places[i], values[i]);
        moments.add(values);
      });
  States own{};
#pragma unroll
  for (int k = 0; k < kWidth; ++k) own.of[k] = {moments.count, moments.mean[k], moments.squares[k]};
  write_partial(walk, room, own, CombineMoments<float>{}, partial);
}

/** What follows the normalisation: nothing, relu, or the sum with a residual and relu. */
template <class T> struct RowTail {
  const T* residual = nullptr;
  bool has_relu = false;

  /** Applies it to a pack, or to half a pack. */
  template <int width> __device__ void apply(std::int64_t place, float (&values)[width]) const {
    if (residual) {
      float added[width];
      load_part<width>(residual + place, added);
#pragma unroll
      for (int k = 0; k < width; ++k)
        values[k] = element_as<float>(element_as<T>(values[k])) + added[k];
    }
    if (has_relu)
#pragma unroll
      for (int k = 0; k < width; ++k) values[k] = op::Relu::forward<float>(values[k]);
  }
};

/** Blocks per multiprocessor for which there are registers: f16 is converted by instructions of its
 *  own. */
template <class T> inline constexpr int kNormaliseResident = std::is_same_v<T, BFloat16> ? 4 : 3;

template <class T>
__global__ void __launch_bounds__(kSpreadThreads, kNormaliseResident<T>)
    packed_normalise_kernel(const RowChunks __grid_constant__ rows,
                            const Normalisation<float> __grid_constant__ norm, const T* x, T* y,
                            const RowTail<T> tail) {
  constexpr int kWidth = kPerPack<T>, kRows = 4;
  const RowWalk<T> walk(rows);
  if (!walk.has_channels()) return;
  float mean[kWidth], scale[kWidth], shift[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const std::int64_t channel = walk.channel + k;
    float rstd;
    if (norm.partial) {
      mean[k] = norm.mean[channel];
      rstd = norm.rstd[channel];
    } else {
      Statistics<float> given;
      given.mean = mean[k] = norm.given_mean.load<float>(channel);
      given.var = norm.given_var.load<float>(channel);
      rstd = given.rstd(norm.eps);
      if (walk.chunk == 0 && walk.at.part == 0) norm.write_statistics(channel, given);
    }
    scale[k] = norm.weight.load_or(channel, 1.0f) * rstd;
    shift[k] = norm.bias.load_or(channel, 0.0f);
  }
  walk.template for_each<kRows>(
      [&]<int n>(std::integral_constant<int, n>, const std::int64_t(&places)[n]) {
        float values[n][kWidth];
#pragma unroll
        for (int i = 0; i < n; ++i) load_values<kWidth>(x + places[i], values[i]);
#pragma unroll
        for (int i = 0; i < n; ++i) {
#pragma unroll
          for (int k = 0; k < kWidth; ++k)
            values[i][k] = op::normalised(values[i][k], mean[k], scale[k], shift[k]);
          tail.apply(places[i], values[i]);
          store_values<kWidth>(y + places[i], values[i]);
        }
      });
}

// ---- gradients ----------------------------------------------------------------------------------

/** The gradient of what follows the normalisation: of relu by its result y if given, else by the
 *  recomputed normalised value. With y the first pass over the operands stores the gated gradient,
 *  which is also that of the residual, and the second one reads it instead of g, `other` and y. */
template <class T> struct RowGate {
  const T* y = nullptr;
  const T* other = nullptr;  // added to g, with one rounding; may be null
  T* g_residual = nullptr;   // not null with y
  bool has_relu = false;
  float zero = 0;  // values up to it were rounded to 0 or are negative

  /** Returns true if the relu mask follows from x, in both passes. */
  __device__ bool recomputes() const { return has_relu && !y; }
  /** Gates g by y. */
  template <int width>
  __device__ void apply(const float (&result)[width], float (&g)[width]) const {
#pragma unroll
    for (int k = 0; k < width; ++k) g[k] = op::Relu::gradient<float>(g[k], result[k], result[k]);
  }
};

/** Adds the values of `other`, a pack or half of one, to g and rounds the sums to T. */
template <class T, int width>
__device__ void add_rounded(const float (&other)[width], float (&g)[width]) {
#pragma unroll
  for (int k = 0; k < width; ++k) g[k] += other[k];
  widen_part<width, T>(narrowed_words<T, width>(g), g);
}

/** Sums of g and of g * (x - mean), as GradientSums, without initial values for shared memory. */
struct RowSums {
  float g, gx;
  __device__ friend RowSums operator+(RowSums a, RowSums b) { return {a.g + b.g, a.gx + b.gx}; }
};

/** The operands of the gradients of a matrix. */
template <class T> struct RowGradients {
  RowChunks rows;
  const T *g, *x;
  T* gx;
  RowGate<T> gate;
  NormBackward<float> norm;
};

inline constexpr int kGradientResident = 2;

/** Returns the operands of `norm` for rows of T. */
template <class T>
RowGradients<T> row_gradients(const NormBackward<float>& norm, const Sizes& s,
                              const RowGate<T>& gate = {}) {
  return {.rows = RowChunks(s.samples, s.channels, norm.x.dtype, 2 * kGradientResident),
          .g = static_cast<const T*>(norm.g.data),
          .x = static_cast<const T*>(norm.x.data),
          .gx = static_cast<T*>(norm.gx.data),
          .gate = gate,
          .norm = norm};
}

/** Coefficients of a pack's channels. */
template <int width> struct PackCoefficients {
  float mean[width], scale[width], shift[width];

  __device__ PackCoefficients(const NormBackward<float>& norm, std::int64_t first) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      mean[k] = norm.mean[first + k];
      scale[k] = norm.weight.load_or(first + k, 1.0f) * norm.rstd[first + k];
      shift[k] = norm.bias.load_or(first + k, 0.0f);
    }
  }
};

/** Loads n packs of x and of g, the latter after the gate. The first pass stores it. */
template <int n, bool is_first, class T>
__device__ void load_gated(const RowGradients<T>& of, const PackCoefficients<kPerPack<T>>& own,
                           const std::int64_t (&places)[n], float (*g)[kPerPack<T>],
                           float (*x)[kPerPack<T>]) {
  constexpr int kWidth = kPerPack<T>;
  const T* const from = !is_first && of.gate.y ? of.gate.g_residual : of.g;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    load_values<kWidth>(from + places[i], g[i]);
    load_values<kWidth>(of.x + places[i], x[i]);
  }
  if (is_first && of.gate.y) {
    float y[n][kWidth];
#pragma unroll
    for (int i = 0; i < n; ++i) load_values<kWidth>(of.gate.y + places[i], y[i]);
    if (of.gate.other) {
      float other[n][kWidth];
#pragma unroll
      for (int i = 0; i < n; ++i) load_values<kWidth>(of.gate.other + places[i], other[i]);
#pragma unroll
      for (int i = 0; i < n; ++i) add_rounded<T>(other[i], g[i]);
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      of.gate.template apply<kWidth>(y[i], g[i]);
      store_values<kWidth>(of.gate.g_residual + places[i], g[i]);
    }
  } else if (of.gate.recomputes()) {
#pragma unroll
    for (int i = 0; i < n; ++i)
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (op::normalised(x[i][k], own.mean[k], own.scale[k], own.shift[k]) <= of.gate.zero)
          g[i][k] = 0;
  }
}

template <class T>
__global__ void __launch_bounds__(kSpreadThreads, kGradientResident)
    packed_gradient_sums_kernel(const RowGradients<T> __grid_constant__ of, RowSums* partial) {
  constexpr int kWidth = kPerPack<T>, kRows = 2;
  using Sums = PackStates<RowSums, kWidth>;
  MZ_SHARED(Sums, room, kSpreadThreads);
  const RowWalk<T> walk(of.rows);
  Sums sums{};
  if (walk.has_channels()) {
    const PackCoefficients<kWidth> own(of.norm, walk.channel);
    walk.template for_each<kRows>(
        [&]<int n>(std::integral_constant<int, n>, const std::int64_t(&places)[n]) {
          float g[n][kWidth], x[n][kWidth];
          load_gated<n, true>(of, own, places, g, x);
#pragma unroll
          for (int i = 0; i < n; ++i)
#pragma unroll
            for (int k = 0; k < kWidth; ++k)
              sums.of[k] = sums.of[k] + RowSums{g[i][k], g[i][k] * (x[i][k] - own.mean[k])};
        });
  }
  write_partial(walk, room, sums, Plus{}, partial);
}

/** Adds the sums of all chunks, and writes the gradients of weight and bias. */
template <class Sums>
__global__ void __launch_bounds__(kSpreadThreads)
    join_gradient_sums_kernel(const RowChunks __grid_constant__ rows,
                              const NormBackward<float> __grid_constant__ norm, const Sums* partial,
                              Sums* totals) {
  MZ_SHARED(Sums, room, kSpreadThreads);
  const Role at = role_in(join_spread());
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * join_spread().slots + at.slot;
  const Sums all = joined_rows(rows, partial, room, channel, at, Plus{});
  if (channel >= rows.channels || at.part != 0) return;
  totals[channel] = all;
  norm.gw[channel] = all.gx * norm.rstd[channel];
  norm.gb[channel] = all.g;
}

/** Computes gx = scale * g - shift - (x - mean) * unit * from_x, as differentiate_runs. */
template <class T>
__global__ void __launch_bounds__(kSpreadThreads, kGradientResident)
    packed_norm_gradient_kernel(const RowGradients<T> __grid_constant__ of, const RowSums* totals) {
  constexpr int kWidth = kPerPack<T>, kRows = 2;
  const RowWalk<T> walk(of.rows);
  if (!walk.has_channels()) return;
  const PackCoefficients<kWidth> own(of.norm, walk.channel);
  const bool through = of.norm.through_statistics;
  float shift[kWidth], from_x[kWidth], unit[kWidth], centre[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const RowSums sums = totals[walk.channel + k];
    const float rstd = of.norm.rstd[walk.channel + k];
    shift[k] = through ? own.scale[k] * (sums.g / of.norm.count) : 0.0f;
    unit[k] = through ? op::unit_of(rstd) : 1.0f;
    centre[k] = own.mean[k] * unit[k];
    from_x[k] = through ? op::slope_of(own.scale[k], rstd, sums.gx / of.norm.count, unit[k]) : 0.0f;
  }
  walk.template for_each<kRows>(
      [&]<int n>(std::integral_constant<int, n>, const std::int64_t(&places)[n]) {
        float g[n][kWidth], x[n][kWidth];
        load_gated<n, false>(of, own, places, g, x);
#pragma unroll
        for (int i = 0; i < n; ++i) {
#pragma unroll
          for (int k = 0; k < kWidth; ++k)
            x[i][k] = g[i][k] * own.scale[k] - shift[k] -
                      deviation(through ? x[i][k] : own.mean[k], unit[k], centre[k]) * from_x[k];
          store_values<kWidth>(of.gx + places[i], x[i]);
        }
      });
}

}  // namespace mezzo::gpu
