#include "scaling_model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace samples {

namespace {

constexpr double kMiB = 1 << 20;

/** Returns the bytes per byte of data that each of n members sends in a ring all-reduce. */
double ring_share(double members) { return 2 * (members - 1) / members; }

}  // namespace

double reduce_seconds(const Fabric& fabric, int ranks, double bytes) {
  const int local = std::min(ranks, fabric.ranks_per_node);
  const double nodes = std::ceil(static_cast<double>(ranks) / fabric.ranks_per_node);
  double seconds = 0;
  if (local > 1)
    seconds += fabric.inside.latency + ring_share(local) * bytes / fabric.inside.bytes_per_s;
  if (nodes > 1)
    seconds += fabric.between.latency * std::log2(nodes) +
               ring_share(nodes) * bytes / fabric.between.bytes_per_s;
  return seconds;
}

std::vector<ReadyGradient> make_buckets(std::span<const ReadyGradient> gradients,
                                        double bucket_bytes) {
  constexpr double kFirst = kMiB, kSingle = kMiB;
  std::vector<ReadyGradient> buckets;
  ReadyGradient open;
  const auto complete = [&](const ReadyGradient& bucket) {
    if (bucket.bytes > 0) buckets.push_back(bucket);
  };
  for (const ReadyGradient& gradient : gradients) {
    if (gradient.bytes >= kSingle) {
      complete(gradient);
      continue;
    }
    open = {gradient.seconds, open.bytes + gradient.bytes};
    if (open.bytes < (buckets.empty() ? kFirst : bucket_bytes)) continue;
    complete(open);
    open = {};
  }
  complete(open);
  return buckets;
}

double predict_step(const StepTimes& profile, const Fabric& fabric, int ranks) {
  if (profile.gradients.empty() || ranks == 1) return profile.seconds;
  const double computed = profile.gradients.back().seconds;
  double delay = 0, reduced = 0;  // of the computation; end of the bucket before
  for (const ReadyGradient& bucket : make_buckets(profile.gradients, fabric.bucket_bytes)) {
    const double start = std::max(bucket.seconds + delay, reduced);
    reduced = start + reduce_seconds(fabric, ranks, bucket.bytes);
    const double overlapped = std::min(reduced, computed + delay) - start;
    delay += fabric.slow_down * std::max(0.0, overlapped);
  }
  return std::max(computed + delay, reduced) + profile.seconds - computed;
}

namespace {

// Nodes with eight H100. Inside: 370 GB/s of bus bandwidth by ring (NVIDIA in
// github.com/NVIDIA/nccl-tests, issue 212) and a latency of 20 us (assumed). Between nodes: 20 us
// per doubling (assumed). A 400G adapter moves 46 to 48 GB/s (NVIDIA, the same, issue 290).
// Ethernet is taken at 85 % of its line rate (assumed). Computing is slower by 5 % while gradients
// are reduced (assumed): the reduction takes multiprocessors and memory bandwidth.
constexpr Link kInside{20e-6, 370e9};
constexpr int kRanksPerNode = 8;
constexpr double kHop = 20e-6, kSlowDown = 0.05, kBucket = 25 * kMiB;
constexpr double kEthernet = 0.85 / 8;  // bytes of data per bit of line rate

Fabric nodes_with(const char* name, double bytes_per_s) {
  return {.name = name,
          .ranks_per_node = kRanksPerNode,
          .inside = kInside,
          .between = {kHop, bytes_per_s},
          .slow_down = kSlowDown,
          .bucket_bytes = kBucket};
}

}  // namespace

std::span<const Fabric> known_fabrics() {
  static const std::array kFabrics{nodes_with("NDR 8x400G", 8 * 47e9),
                                   nodes_with("100 GbE", 100e9 * kEthernet),
                                   nodes_with("10 GbE", 10e9 * kEthernet)};
  return kFabrics;
}

Link fit_link(std::span<const ReduceTime> times) {
  // Normal equations of a weighted fit of seconds = a + b bytes, with weights 1 / seconds^2.
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const ReduceTime& time : times) {
    const double weight = 1 / (time.seconds * time.seconds);
    w += weight;
    wx += weight * time.bytes;
    wxx += weight * time.bytes * time.bytes;
    wy += weight * time.seconds;
    wxy += weight * time.bytes * time.seconds;
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return {.latency = (wy - slope * wx) / w, .bytes_per_s = 1 / slope};
}

Fabric fabric_of(const Link& fitted, int ranks, double slow_down, double bucket_bytes) {
  return {.name = "this communicator",
          .ranks_per_node = ranks,
          .inside = {fitted.latency, ring_share(ranks) * fitted.bytes_per_s},
          .between = {},
          .slow_down = slow_down,
          .bucket_bytes = bucket_bytes};
}

}  // namespace samples
