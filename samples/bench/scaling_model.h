// A model of the time of a step of several ranks: gradients are reduced while backward() computes
// the next ones, by a communicator with a latency and a bandwidth.
// Source: the ring all-reduce's cost 2 (n - 1) / n bytes / bandwidth, as in NCCL's tests
// (github.com/NVIDIA/nccl-tests, page PERFORMANCE), plus a latency per operation: Hockney, The
// communication challenge for MPP (1994).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace samples {

/** A gradient, or several that are reduced together. */
struct ReadyGradient {
  double seconds = 0;  // from the start of the step until backward() has computed it
  double bytes = 0;    // size in the dtype in which it is reduced
};

/** What a rank computes in a step. */
struct StepTimes {
  double seconds = 0;                    // of a step of one rank alone
  std::vector<ReadyGradient> gradients;  // in the order in which backward() computes them; the step
                                         // goes on when the last one is reduced
};

/** A connection: an operation takes latency + bytes / bytes_per_s. */
struct Link {
  double latency = 0;  // seconds
  double bytes_per_s = 0;
};

/** How ranks are connected. */
struct Fabric {
  std::string name;
  int ranks_per_node = 1;
  Link inside;           // among the ranks of a node; bandwidth of each rank ("bus bandwidth")
  Link between;          // among nodes; latency per doubling of their number, bandwidth of a node
  double slow_down = 0;  // share by which computing takes longer while gradients are reduced
  double bucket_bytes = 0;  // DistributedDataParallelOptions::bucket_mib
};

/** Returns the seconds in which `ranks` ranks reduce `bytes` bytes: the ranks of each node first,
 *  then equal parts among the nodes. */
double reduce_seconds(const Fabric& fabric, int ranks, double bytes);

/** Returns the buckets in which DistributedDataParallel reduces gradients: 1 MiB, then bucket_bytes
 *  each; a gradient of 1 MiB or more is one of its own. */
std::vector<ReadyGradient> make_buckets(std::span<const ReadyGradient> gradients,
                                        double bucket_bytes);

/** Returns the predicted seconds of a step of each of `ranks` ranks. Buckets are reduced one after
 *  the other, as soon as they are ready. Meanwhile computing is slower by fabric.slow_down. */
double predict_step(const StepTimes& profile, const Fabric& fabric, int ranks);

/** Returns the fabrics for which bench --scaling-model predicts. */
std::span<const Fabric> known_fabrics();

/** Sizes and times of all-reduces. */
struct ReduceTime {
  double bytes = 0;
  double seconds = 0;
};

/** Returns the line seconds = latency + bytes / bytes_per_s with the least sum of squares of
 *  relative errors. Times have to be positive, of at least two sizes. */
Link fit_link(std::span<const ReduceTime> times);

/** Returns the communicator of `ranks` ranks with these times of all-reduces, as one node. */
Fabric fabric_of(const Link& fitted, int ranks, double slow_down, double bucket_bytes);

}  // namespace samples
