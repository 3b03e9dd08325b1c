// Map: the operands of an elementwise kernel: addresses, dtypes and strides over one common shape.
// Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/core/op.h"
#include "../runtime/runtime.h"

namespace mezzo::gpu {

/** One operand. */
struct MapOperand {
  enum class Layout : std::uint8_t { absent, tensor, number };
  void* data = nullptr;
  double real = 0;           // value of a CPU scalar of a floating dtype
  std::int64_t integer = 0;  // value of one of an integer dtype
  bool is_real = false;      // which of the two holds the value
  DType dtype = DType::f32;
  Layout layout = Layout::absent;
  bool vectors = false;                        // runs of kRun elements are contiguous and aligned
  std::int64_t strides[Shape::kMaxRank] = {};  // in elements; 0 where broadcast

  MZ_HD bool present() const { return layout != Layout::absent; }
};

/** Elements that one thread loads and stores together: a 16-byte word of floats, two of doubles. */
inline constexpr int kRun = 4;
/** Elements that one thread loads and stores together in a kernel on packs: 16 bytes of 16-bit
 *  floats. */
inline constexpr int kMapPack = 8;
inline constexpr int kMostMapInputs = 6, kMostMapOutputs = 4;

/** The order in which a kernel numbers the elements of the common shape. */
enum class MapOrder : std::uint8_t {
  as_written,  // the outputs' memory order, row-major or channels-last, for kernels that treat all
               // elements alike
  row_major,
};

/** All operands of one kernel. Dimensions that are contiguous in every operand are merged. */
struct Map {
  std::int64_t count = 0;  // elements
  int rank = 0;
  bool whole_runs = false;  // no run crosses the end of a row, so a run has one address and one
                            // stride in each operand
  std::int64_t sizes[Shape::kMaxRank] = {};
  MapOperand in[kMostMapInputs], out[kMostMapOutputs];
};

/** The launch functions of one op by compute type; null where the op does not support the type. */
struct MapFns {
  using Fn = void (*)(const Map& map, const void* attrs, runtime::Stream stream);
  Fn f32 = nullptr, f64 = nullptr, i64 = nullptr;
  Fn packed = nullptr;  // used for f32 where takes_packs() is true
};

/** Returns true if all operands are packs of kMapPack elements, aligned and contiguous, of f32,
 * bool or 16-bit floats, and at least one of the latter. */
bool takes_packs(const Map& map);

/** Runs the kernel of compute type `compute` on operands broadcast to the shape of the outputs.
 *  Values are converted on load; each result is rounded once on store. Undefined operands are
 *  skipped; 0-dim operands may be on the CPU. */
MZ_API void map_elements(const MapFns& fns, DType compute, Inputs in, Outputs out,
                         const void* attrs, MapOrder order = MapOrder::as_written);

}  // namespace mezzo::gpu
