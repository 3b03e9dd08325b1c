// Which recurrent layers run in one launch for all steps (recurrent_persistent.h), and on how many
// blocks. Parsed by g++ and by nvcc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mezzo::gpu {

inline constexpr std::int64_t kUnitsOfPatch = 16;
inline constexpr int kPersistentWarps = 8;
/** Flags for the blocks of all groups of sequences: lines of the cache, and flags of a line. */
inline constexpr std::int64_t kPlannedLines = 64, kPlannedFlags = 32;
/** Most tiles of a group. */
inline constexpr int kMostTiles = 4;
/** Most patches of hidden units for each warp: layers of up to 1024 units. */
inline constexpr int kMostDepth = 8;

/** Predicted seconds of a step on an H100. Measured was one layer, on an H200 and before blocks
 *  waited for flags: 3.0 us forward and 5.1 backward, for which this has 2.5 and 3.3.
 *
 *  In one launch: the latency of a barrier and of the first loads behind it, assumed; the
 *  instructions of a tile, which tests/checks/sass_budget.py counts (forward about 590 of a thread,
 *  backward 1000, for two warps per scheduler at 1.75 GHz; a part of them runs while others wait);
 *  and what the blocks load, at the bandwidth of the cache. Step by step: two kernels in a graph,
 *  or the product, if it takes longer than the shortest kernel. */
struct PersistentModel {
  static constexpr double kLatency = 1.5e-6, kForwardTile = 0.6e-6, kBackwardTile = 1.0e-6,
                          kCacheBytes = 5.5e12, kKernel = 2.5e-6, kFlops = 643e12;

  /** `columns`: numbers of a sequence that each of the `slices` blocks loads at a step. */
  static double persistent(std::int64_t slices, std::int64_t tiles, std::int64_t batch,
                           std::int64_t columns, bool backward) {
    return kLatency + (backward ? kBackwardTile : kForwardTile) * static_cast<double>(tiles) +
           2.0 * static_cast<double>(slices * batch * columns) / kCacheBytes;
  }
  /** `weights`: elements of the recurrent weights. */
  static double stepwise(std::int64_t batch, std::int64_t weights) {
    return kKernel + std::max(kKernel, 2.0 * static_cast<double>(batch * weights) / kFlops);
  }
};

/** The distribution of a layer over blocks, which depends on its sizes and the device. */
struct PersistentPlan {
  int slices = 0, groups = 0, tiles = 0;  // tiles: of a group
  std::int64_t blocks() const { return std::int64_t{slices} * groups; }
};

/** The sizes of a layer. */
struct PersistentSizes {
  std::int64_t gates = 0, steps = 0, batch = 0, hidden = 0;
  bool backward = false;

  static std::int64_t parts_of(std::int64_t n, std::int64_t part) { return (n + part - 1) / part; }
  std::int64_t depth() const { return parts_of(hidden, kUnitsOfPatch); }  // patches of hidden units
  /** Returns the patches of hidden units for a warp of the kernel that serves the layer. */
  int warp_depth() const {
    return depth() <= kMostDepth / 2 * kPersistentWarps ? kMostDepth / 2 : kMostDepth;
  }
  /** Returns the patches of units of a block: a backward pass loads less with more of them. */
  int parts() const { return backward && warp_depth() < kMostDepth ? 2 : 1; }

  /** Returns the lines of the cache that the flags of a group have for themselves. */
  static std::int64_t flag_lines(std::int64_t slices) { return parts_of(slices, kPlannedFlags); }

  /** Returns the plan for a device that runs `resident` blocks at once, or nothing if the layer
   *  does not fit or is predicted to be faster step by step. */
  std::optional<PersistentPlan> plan(std::int64_t resident) const {
    constexpr std::int64_t kMostRows = 1 << 30;
    if (steps < 2 || batch < 1 || hidden < 1 || depth() > kMostDepth * kPersistentWarps ||
        steps > kMostRows / batch)
      return std::nullopt;
    const std::int64_t slices = parts_of(depth(), parts()), tiles = parts_of(batch, kUnitsOfPatch);
    for (std::int64_t own = 1; own <= kMostTiles; ++own) {
      const std::int64_t groups = parts_of(tiles, own);
      if (groups * flag_lines(slices) > kPlannedLines || slices * groups > resident) continue;
      const std::int64_t columns = (backward ? gates : 1) * hidden;
      if (PersistentModel::persistent(slices, own, batch, columns, backward) >
          PersistentModel::stepwise(batch, gates * hidden * hidden))
        return std::nullopt;
      return PersistentPlan{static_cast<int>(slices), static_cast<int>(groups),
                            static_cast<int>(own)};
    }
    return std::nullopt;
  }
};

}  // namespace mezzo::gpu
