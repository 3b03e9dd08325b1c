// A graph of cuDNN's operations while it is put together, and the engine that is chosen for it.
// Sees: dnn_library.h.
// Read next: dnn_graph.cpp, dnn_plan.h (whose graphs).
#pragma once

#include <optional>

#include "dnn_library.h"

namespace mezzo::gpu::dnn {

/** What a plan is for: the device of a handle, or one that is only described, for looking at plans where there is none. */
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

/** The engine that cuDNN chose for a graph, ready to run. */
struct Plan {
  Descriptor engine;  // an execution plan of the library's
  std::int64_t workspace = 0;
  bool tensor_cores = false;
  int index = 0;  // of the engine, among those that the library named and that keep to the limits
};

/** An array that operations read or write. */
struct Array {
  enum class Place : std::uint8_t {
    memory,  // of the device; the address comes with each run, under the array's name
    engine,  // between two operations, never written to memory
    host,    // a single number, read from the host with each run
  };
  std::int64_t name = 0;  // one of a kind in its graph
  std::vector<std::int64_t> sizes, strides;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t alignment = 16;  // bytes
  Place place = Place::memory;
};

/** The parts of a graph, which the library keeps pointers to. */
class Graph {
 public:
  /** A part by the order of their making. */
  using Part = std::size_t;

  Part add(const Array& array);
  /** What an operation does; whether the library can do it shows in the end. */
  Part add(Descriptor description);
  void add_operation(Descriptor operation);
  const Descriptor& operator[](Part part) const { return parts_[part]; }

  /** All of it as one, or none where the library has nothing for it. */
  std::optional<Descriptor> descriptor(const Target& target) const;

 private:
  std::vector<Descriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  bool supported_ = true;
};

/** What an engine must keep to. */
struct EngineLimits {
  bool repeats = true;                             // gives the same bits every time
  std::int64_t workspace = std::int64_t{1} << 30;  // bytes beside its operands
  bool tensor_cores = true;                        // may round f32 factors to TF32
};

/** The first engine of the library's own order, from the one at index `first` on, that keeps to
 *  the limits; none where it has none. Errors: CudaError where the library fails. */
std::optional<Plan> choose_engine(const Graph& graph, const Target& target, const EngineLimits& limits,
                                  int first);

}  // namespace mezzo::gpu::dnn
