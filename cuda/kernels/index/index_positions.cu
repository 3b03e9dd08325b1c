// The CUDA kernels that compute positions: of tuples of indices, and of non-zero elements.
#include <cub/device/device_select.cuh>

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/text/text.h"
#include "../../attach.h"
#include "../../runtime/index_errors.h"
#include "../axes.h"
#include "../host_rows.h"
#include "../items.h"
#include "../line_scan.h"

namespace mezzo::gpu {

namespace {

/** One index tensor of a tuple, broadcast to the common shape. */
struct TupleIndex {
  Array values;  // row-major, so that an element's offset is its number
  Axes axes;
  std::int64_t size;  // size of the indexed dimension
  IndexErrorWord* bad;

  /** Returns the non-negative index of element i; 0 for one that is out of range. */
  __device__ std::int64_t wrapped(std::int64_t i) const {
    const std::int64_t at = place_of(axes, i), value = values.load<std::int64_t>(at);
    if (value < -size || value >= size) {
      note_bad(bad, at, value);
      return 0;
    }
    return value < 0 ? value + size : value;
  }
};

struct Tuple {
  int count = 0;
  TupleIndex indices[Shape::kMaxRank];
};

__global__ void __launch_bounds__(kItemThreads)
    positions_kernel(const Tuple __grid_constant__ tuple, std::int64_t count,
                     std::int64_t* positions) {
  const std::int64_t i = item_here();
  if (i >= count) return;
  std::int64_t position = 0;
  for (int k = 0; k < tuple.count; ++k)
    position = position * tuple.indices[k].size + tuple.indices[k].wrapped(i);
  positions[i] = position;
}

/** Returns the axes of a row-major tensor broadcast to `shape`. */
Axes broadcast_axes(const Shape& from, const Shape& shape) {
  const Strides strides = contiguous_strides(from);
  Axes axes;
  for (int d = 0; d < shape.rank(); ++d) {
    const int own = d - (shape.rank() - from.rank());
    axes.push(shape[d], own < 0 || from[own] == 1 ? 0 : strides[own]);
  }
  return axes;
}

void index_positions(Inputs in, Outputs out, const op::IndexPositions::Attrs& attrs) {
  const Tensor& x = in[0];
  const TensorMeta into{x.shape(), x.dtype(), x.device()};
  std::vector<Tensor> held;
  Tuple tuple;
  std::size_t operand = 0;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(attrs.dims >> d & 1)) continue;
    const Tensor index = row_major(in[++operand]);
    held.push_back(index);
    const std::int64_t size = x.shape()[d];
    tuple.indices[tuple.count++] = {
        Array(index), broadcast_axes(index.shape(), out[0].shape()), size,
        watch(x.device(), op::IndexRange{attrs.op, index.shape(), into, d, -size, size})};
  }
  launch_over(out[0].numel(), x.device(), &positions_kernel, tuple, out[0].numel(),
              out[0].data<std::int64_t>());
}

/** The rows of coordinates that nonzero() writes. */
struct Coordinates {
  Axes shape;         // of the operand; strides are not used
  std::int64_t room;  // number of rows
  std::int64_t* rows;

  /** Stores those of element i in a row, if it exists. */
  __device__ void operator()(std::int64_t row, std::int64_t i) const {
    if (row >= room) return;
    for (int d = shape.rank - 1; d >= 0; --d) {
      rows[row * shape.rank + d] = i % shape.sizes[d];
      i /= shape.sizes[d];
    }
  }
};

/** Which elements of a row-major tensor are not 0. */
struct IsNonzero {
  const void* data;
  int bytes;           // of an element
  std::uint64_t bits;  // those of which one is set; -0 is 0

  explicit IsNonzero(const Tensor& x)
      : data(x.raw_data()),
        bytes(static_cast<int>(item_size(x.dtype()))),
        bits(~std::uint64_t{0} >> (64 - 8 * bytes) >> (is_floating(x.dtype()) ? 1 : 0)) {}

  __device__ bool operator()(std::int64_t i) const {
    switch (bytes) {
      case 1: return (static_cast<const std::uint8_t*>(data)[i] & bits) != 0;
      case 2: return (static_cast<const std::uint16_t*>(data)[i] & bits) != 0;
      case 4: return (static_cast<const std::uint32_t*>(data)[i] & bits) != 0;
      default: return (static_cast<const std::uint64_t*>(data)[i] & bits) != 0;
    }
  }
};

/** Counts non-zero elements, and stores the coordinates of each in the row of its number. */
struct NonzeroPlaces {
  using State = std::int64_t;
  IsNonzero selects;
  std::int64_t length;
  Coordinates to;
  std::int64_t* total;

  __device__ State identity() const { return 0; }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return selects(place) ? 1 : 0;
  }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ void store(std::int64_t, std::int64_t, std::int64_t i, State before,
                        State upto) const {
    if (i + 1 == length) *total = upto;
    if (upto != before) to(before, i);
  }
};

/** Number i, of element i. */
struct Number {
  __device__ std::int64_t operator()(std::int64_t i) const { return i; }
};

/** Two launches, which load an element once. Those of scan.h are three, and load it twice. */
void select_by_cub(const NonzeroPlaces& places, Device device) {
  const auto stream = static_cast<cudaStream_t>(current_stream(device));
  with_temporary(
      [&](void* storage, std::size_t& bytes) {
        return cub::DeviceSelect::If(storage, bytes, CubInput<Number>{},
                                     CubOutput<std::int64_t, Coordinates>{places.to}, places.total,
                                     static_cast<int>(places.length), places.selects, stream);
      },
      device);
}

std::int64_t read(const std::int64_t* from, Device device) {
  std::int64_t value = 0;
  const runtime::Stream stream = current_stream(device);
  runtime::copy(&value, from, sizeof value, stream);
  runtime::synchronize(stream);
  return value;
}

/** Synchronises with the device to check the count. The caller did so too when it read the
 *  count. */
void nonzero(Inputs in, Outputs out, const op::Nonzero::Attrs& attrs) {
  const Tensor x = row_major(in[0]);
  const Tensor total = workspace(sizeof(std::int64_t), x.device());
  Axes shape;
  for (const std::int64_t size : x.shape()) shape.sizes[shape.rank++] = size;
  std::int64_t* const count = static_cast<std::int64_t*>(total.raw_data());
  const NonzeroPlaces places{
      IsNonzero(x), x.numel(), {shape, attrs.count, out[0].data<std::int64_t>()}, count};
  if (cub_takes_line(x.numel()))
    select_by_cub(places, x.device());
  else
    scan(Lines{.count = 1, .length = x.numel()}, false, places, x.device());
  const std::int64_t found = x.numel() == 0 ? 0 : read(count, x.device());
  if (found != attrs.count)
    fail<ValueError>("nonzero", {.what = "count is not the number of non-zero elements",
                                 .got = str(attrs.count),
                                 .expected = "the tensor's count"});
}

}  // namespace

void attach_index_positions() {
  attach<op::IndexPositions, index_positions>();
  attach<op::Nonzero, nonzero>();
}

}  // namespace mezzo::gpu
