// Map: the operands of an elementwise kernel: addresses, dtypes and strides over one common shape.
// Parsed by g++ and by nvcc.
#pragma once

#include <bit>

#include "../../tensor/core/op.h"
#include "../runtime/runtime.h"

namespace mezzo::gpu {

/** One operand. */
struct MapOperand {
  enum class Layout : std::uint8_t {
    absent,
    tensor,
    repeated,  // a tensor with one element for each row; only in maps of packs
    number,
  };
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

/** Divides numbers below 2^31 by a constant without a division. Source: Granlund and Montgomery,
 *  "Division by Invariant Integers using Multiplication" (1994), section 4. */
struct Divider {
  std::uint32_t by = 1, multiplier = 1;
  int shift = 0;

  Divider() = default;
  /** For a divisor of 1 to 2^31. */
  explicit Divider(std::uint32_t divisor)
      : by(divisor), shift(static_cast<int>(std::bit_width(divisor - 1))) {
    const std::uint64_t rest = (std::uint64_t{1} << shift) - divisor;
    multiplier = static_cast<std::uint32_t>((rest << 32) / divisor + 1);
  }
  MZ_HD std::uint32_t quotient(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>(std::uint64_t{n} * multiplier >> 32);
    return (high + n) >> shift;
  }
};

/** All operands of one kernel. Dimensions that are contiguous in every operand are merged. */
struct Map {
  std::int64_t count = 0;  // elements
  int rank = 0;
  bool whole_runs = false;  // no run crosses the end of a row, so a run has one address and one
                            // stride in each operand
  // of maps of packs: the two halves of a thread's pack are those of a warp, not adjacent, so that
  // the lanes of a warp load adjacent words of 16 bytes in f32
  bool halves_apart = false;
  std::int64_t sizes[Shape::kMaxRank] = {};
  Divider runs[Shape::kMaxRank];  // of maps of packs: by the sizes, the last counted in runs
  MapOperand in[kMostMapInputs], out[kMostMapOutputs];
};

/** The launch functions of one op by compute type; null where the op does not support the type. */
struct MapFns {
  using Fn = void (*)(const Map& map, const void* attrs, runtime::Stream stream);
  Fn f32 = nullptr, f64 = nullptr, i64 = nullptr;
  /** Used for f32 where the map is one of packs: rows are multiples of kMapPack elements, and all
   *  operands are numbers or tensors of f32, bool or 16-bit floats whose rows are aligned and
   *  contiguous, or, except for the results, one element. */
  Fn packed = nullptr;
};

/** Runs the kernel of compute type `compute` on operands broadcast to the shape of the outputs.
 *  Values are converted on load; each result is rounded once on store. Undefined operands are
 *  skipped; 0-dim operands may be on the CPU. */
MZ_API void map_elements(const MapFns& fns, DType compute, Inputs in, Outputs out,
                         const void* attrs, MapOrder order = MapOrder::as_written);

}  // namespace mezzo::gpu
