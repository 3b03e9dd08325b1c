// The CUDA kernels that compute positions: of tuples of indices, and of non-zero elements.
#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../attach.h"
#include "../runtime/deferred.h"
#include "axes.h"
#include "host_rows.h"
#include "items.h"
#include "scan.h"

namespace mezzo::gpu {

namespace {

/** One index tensor of a tuple, broadcast to the common shape. */
struct TupleIndex {
  Array values;  // row-major, so that an element's offset is its number
  Axes axes;
  std::int64_t size;  // size of the indexed dimension
  DeferredWord* bad;

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
    positions_kernel(const __grid_constant__ Tuple tuple, std::int64_t count,
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

/** Counts non-zero elements, and stores the coordinates of each in the row of its number. */
template <class C> struct NonzeroPlaces {
  using State = std::int64_t;
  Array x;
  Axes shape;                 // strides are not used
  std::int64_t length, room;  // number of elements, rows of coordinates
  std::int64_t* coordinates;
  std::int64_t* total;

  __device__ State identity() const { return 0; }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return x.load<C>(place) != C(0) ? 1 : 0;
  }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ void store(std::int64_t, std::int64_t, std::int64_t i, State before,
                        State upto) const {
    if (i + 1 == length) *total = upto;
    if (upto == before || before >= room) return;
    std::int64_t rest = i;
    for (int d = shape.rank - 1; d >= 0; --d) {
      coordinates[before * shape.rank + d] = rest % shape.sizes[d];
      rest /= shape.sizes[d];
    }
  }
};

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
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    scan(Lines{.count = 1, .length = x.numel()}, false,
         NonzeroPlaces<C>{Array(x), shape, x.numel(), attrs.count, out[0].data<std::int64_t>(),
                          count},
         x.device());
  });
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
