// Distribution of tensors [samples, channels, inner] over blocks by channels: a block works on a
// chunk of the elements of a few channels. Where inner is 1, as in channels-last images with their
// positions as samples, neighbouring threads work on neighbouring channels.
#pragma once

#include <algorithm>
#include <cmath>

#include "lines.h"

namespace mezzo::gpu {

/** A distribution over channels. A channel's elements are numbered sample by sample; each of its
 *  chunks is the work of one block. */
struct Channels {
  std::int64_t samples = 1, channels = 1, inner = 1;
  std::int64_t width = 1;  // elements of the tensor per element here: those of a pack, or 1
  Spread spread = {};
  std::int64_t chunks = 1, chunk_length = 0;

  MZ_HD std::int64_t length() const { return samples * inner; }
  std::int64_t blocks() const { return blocks_for(channels, spread.slots) * chunks; }
  /** Returns true if a block processes all of its channels in about the time of one more launch, 3
   *  us. */
  bool is_small() const {
    constexpr std::int64_t kWorthALaunch = 128 << 10;  // elements
    return length() * width * spread.slots <= kWorthALaunch;
  }
};

/** Returns the distribution of threads. Where the channels are too few to fill a block, each gets
 *  more threads. */
inline Spread spread_of_channels(const Channels& c) {
  Spread spread = spread_over(c.channels, c.length(), c.inner == 1);
  while (spread.across && spread.threads() < kSpreadThreads && spread.parts < c.length())
    spread.parts *= 2;
  return spread;
}

/** Cuts channels into chunks; `inner` elements are read `width` at a time. The chunks depend on the
 *  sizes alone, and so does the order of all sums. */
inline Channels spread_channels(std::int64_t samples, std::int64_t channels, std::int64_t inner,
                                std::int64_t width = 1) {
  constexpr std::int64_t kWorthABlock = 4096,
                         kPlenty = 1024;  // elements; blocks that keep a GPU busy
  // Every block of the second launch combines the states of all chunks of its channels, which
  // should be less work than its own chunk. In elements.
  constexpr double kWorthAState = 8;
  Channels c{.samples = samples, .channels = channels, .inner = inner / width, .width = width};
  c.spread = spread_of_channels(c);
  const std::int64_t blocks = std::max<std::int64_t>(c.blocks(), 1);
  const auto joinable =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(c.length() * width) / kWorthAState));
  const std::int64_t wanted = std::min(
      {blocks_for(c.length() * width * c.spread.slots, kWorthABlock), kPlenty / blocks, joinable});
  c.chunk_length = blocks_for(c.length(), std::max<std::int64_t>(wanted, 1));
  if (c.chunk_length > 0) c.chunks = blocks_for(c.length(), c.chunk_length);
  return c;
}

/** Largest block for channels in one chunk. */
inline constexpr int kWholeThreads = 1024;

/** Distributes channels with one chunk each. */
inline Channels whole_channels(std::int64_t samples, std::int64_t channels, std::int64_t inner,
                               std::int64_t width = 1) {
  constexpr std::int64_t kWorthALargeBlock = 4096;  // elements of a block
  Channels c{.samples = samples, .channels = channels, .inner = inner / width, .width = width};
  c.spread = spread_of_channels(c);
  if (c.length() * c.spread.slots >= kWorthALargeBlock)
    c.spread.parts *= kWholeThreads / kSpreadThreads;
  c.chunk_length = c.length();
  return c;
}

inline Grid grid_of(const Channels& c) {
  return {.blocks = c.blocks(), .threads = c.spread.threads()};
}

/** The calling thread's elements of its chunk of its channel. Every thread of the block must
 *  construct it. */
struct ChannelWalk {
  const Channels& all;
  Role at;
  std::int64_t channel, chunk;

  __device__ explicit ChannelWalk(const Channels& c)
      : all(c),
        at(role_in(c.spread)),
        channel(static_cast<std::int64_t>(blockIdx.x) / c.chunks * c.spread.slots + at.slot),
        chunk(static_cast<std::int64_t>(blockIdx.x) % c.chunks) {}

  __device__ bool has_channel() const { return channel < all.channels; }
  __device__ bool is_first() const { return has_channel() && at.part == 0; }

  /** Calls f(places, n) for up to kBatch elements at a time; n is the same for all calls but the
   *  last. */
  template <int kBatch, class F> __device__ void for_each_batch(F&& f) const {
    if (!has_channel()) return;
    const std::int64_t begin = chunk * all.chunk_length, left = all.length() - begin;
    const std::int64_t end = begin + (left < all.chunk_length ? left : all.chunk_length);
    std::int64_t i = begin + at.part;
    if (i >= end) return;
    // Offsets from one element to the next, without a division.
    const std::int64_t samples_on = all.spread.parts / all.inner,
                       inner_on = all.spread.parts % all.inner;
    const std::int64_t step = samples_on * all.channels * all.inner + inner_on;
    const std::int64_t next_sample = (all.channels - 1) * all.inner;
    std::int64_t k = i % all.inner,
                 place = (i / all.inner * all.channels + channel) * all.inner + k;
    while (i < end) {
      std::int64_t places[kBatch];
      int n = 0;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        places[j] = place;
        if (i >= end) continue;
        ++n;
        i += all.spread.parts;
        k += inner_on;
        place += step;
        if (k >= all.inner) {
          k -= all.inner;
          place += next_sample;
        }
      }
      f(places, n);
    }
  }
};

}  // namespace mezzo::gpu
