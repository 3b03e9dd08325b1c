// Map: the operands of an elementwise kernel, as the kernel gets them: addresses, dtypes and strides over one common shape.
// Sees: ../tensor/op.h; parsed by nvcc too.
// Read next: map.cpp (makes it), kernels/map.h (reads and writes elements through it).
#pragma once

#include "../tensor/op.h"
#include "runtime.h"

namespace mezzo::gpu {

/** One operand. */
struct MapOperand {
  enum class Layout : std::uint8_t { absent, tensor, number };
  void* data = nullptr;
  double real = 0;           // of a number from the CPU: its value, and
  std::int64_t integer = 0;  // the same as an integer
  DType dtype = DType::f32;
  Layout layout = Layout::absent;
  bool vectors = false;                        // runs of kRun elements lie side by side and aligned
  std::int64_t strides[Shape::kMaxRank] = {};  // in elements; 0 where it is broadcast

  MZ_HD bool present() const { return layout != Layout::absent; }
};

/** Elements that one thread reads and writes together: a 16-byte word of floats, two of doubles. */
inline constexpr int kRun = 4;
inline constexpr int kMostMapInputs = 6, kMostMapOutputs = 4;

/** The order in which a kernel counts the elements of the common shape. */
enum class MapOrder : std::uint8_t {
  as_written,  // that of the outputs' memory, row-major or channels-last: for kernels that treat all elements alike
  row_major,
};

/** All operands of one kernel. Dimensions that run on into each other in every operand are taken together. */
struct Map {
  std::int64_t count = 0;  // elements
  int rank = 0;
  bool whole_runs =
      false;  // a run never crosses the end of a row: it has one address and one step in each operand
  std::int64_t sizes[Shape::kMaxRank] = {};
  MapOperand in[kMostMapInputs], out[kMostMapOutputs];
};

/** The kernels of one op: each puts itself into the stream; null where the op does not compute in the type. */
struct MapFns {
  using Fn = void (*)(const Map& map, const void* attrs, runtime::Stream stream);
  Fn f32 = nullptr, f64 = nullptr, i64 = nullptr;
};

/** Applies `fns` in the arithmetic of `compute` to operands broadcast to the shape of the outputs. Each value is converted on load, each result
 *  rounded once on store. Undefined operands are skipped; 0-dim operands may be on the CPU. */
void map_elements(const MapFns& fns, DType compute, Inputs in, Outputs out, const void* attrs,
                  MapOrder order = MapOrder::as_written);

}  // namespace mezzo::gpu
