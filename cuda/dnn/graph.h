// Graph: builds a graph of cuDNN operations. choose_engine(): chooses an engine for it.
#pragma once

#include <optional>

#include "library.h"

namespace mezzo::gpu::dnn {

/** The device that a plan is for: that of a handle, or one described by properties, which allows
 *  inspecting plans without the device. */
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

/** The engine chosen for a graph, ready to run. */
struct Plan {
  Descriptor engine;  // a cuDNN execution plan
  std::int64_t workspace = 0;
  bool tensor_cores = false;
  int index = 0;             // index of the engine among those that satisfy the limits
  bool last_resort = false;  // after all others: see EngineLimits::puts_off_direct
};

/** An array that operations read or write. */
struct Array {
  enum class Place : std::uint8_t {
    memory,  // in device memory; each run passes the address, under the array's id
    engine,  // intermediate, never written to memory
    host,    // a single number, read from the host at each run
  };
  std::int64_t name = 0;  // unique id in its graph
  std::vector<std::int64_t> sizes, strides;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t alignment = 16;  // bytes
  Place place = Place::memory;
  /** The elements are in the order of tiles of 16 x 16, in which engines add to sums in memory. */
  bool in_tiles = false;
};

/** A graph under construction. It owns its parts, because the library keeps pointers to them. */
class Graph {
 public:
  /** Index of a part, in order of creation. */
  using Part = std::size_t;

  Part add(const Array& array);
  /** Adds a description of an operation. If the library does not support it, descriptor() returns
   *  nothing. */
  Part add(Descriptor description);
  void add_operation(Descriptor operation);
  const Descriptor& operator[](Part part) const { return parts_[part]; }

  /** Returns the whole graph as a descriptor, or nothing if the library does not support it. */
  std::optional<Descriptor> descriptor(const Target& target) const;

 private:
  std::vector<Descriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  bool supported_ = true;
};

/** Constraints on an engine. */
struct EngineLimits {
  bool repeats = true;                             // must be deterministic
  std::int64_t workspace = std::int64_t{1} << 30;  // largest workspace in bytes
  bool tensor_cores = true;                        // may round f32 factors to TF32
  // Engine 0, whose kernels are named grouped direct, comes after all others. Where Tensor Cores
  // are not allowed the library's list often begins with it, but for convolutions of one group it
  // is up to 200 times slower than others.
  bool puts_off_direct = false;
};

/** Returns a plan with the first engine, from index `first` on, that satisfies the limits, or
 *  nothing if there is none. The order is the library's, except for puts_off_direct. Errors:
 *  CudaError where the library fails. */
std::optional<Plan> choose_engine(const Graph& graph, const Target& target,
                                  const EngineLimits& limits, int first);

}  // namespace mezzo::gpu::dnn
