// The CUDA kernels of the ops that rearrange elements: pad, flip, roll, repeat, and their adjoint.
#include "../../../tensor/cpu/order.h"
#include "../../../tensor/ops/shape/place.h"
#include "../../attach.h"
#include "../move.h"

namespace mezzo::gpu {

namespace {

using op::PlaceDim;
using op::PlaceMode;

/** The dimensions of a placement. Adjacent dimensions that are copied whole are merged. */
struct Placement {
  int rank = 0;
  PlaceDim dims[Shape::kMaxRank];
  std::int64_t sizes[Shape::kMaxRank];  // of the operand, row-major

  Placement(const op::PlaceAttrs& attrs, const Shape& operand) {
    for (int d = 0; d < operand.rank(); ++d) {
      const PlaceDim& dim = attrs.dims[static_cast<std::size_t>(d)];
      const std::int64_t n = operand[d];
      if (is_whole(dim, n) && rank > 0 && is_whole(dims[rank - 1], sizes[rank - 1])) {
        sizes[rank - 1] *= n;
        dims[rank - 1].size *= n;
        continue;
      }
      dims[rank] = dim;
      sizes[rank++] = n;
    }
  }
  static bool is_whole(const PlaceDim& dim, std::int64_t n) {
    return dim.mode == PlaceMode::inside && dim.begin == 0 && dim.size == n;
  }

  /** Returns the operand offset of element i of the result. */
  __device__ std::int64_t source(std::int64_t i) const {
    std::int64_t place = 0, stride = 1;
    for (int d = rank - 1; d >= 0; --d) {
      std::int64_t o;
      i = divided(i, dims[d].size, o);
      const std::int64_t from = op::place_source(dims[d], sizes[d], o);
      if (from < 0) return -1;
      place += from * stride;
      stride *= sizes[d];
    }
    return place;
  }
};

void place(Inputs in, Outputs out, const op::PlaceAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], in[0].dim() - 2);
  const Tensor x = to_format(in[0], format);
  if (format == MemoryFormat::contiguous)
    return move_elements(x, out[0], attrs.value, Placement(attrs, x.shape()));
  const Tensor rows = channels_at_end(x);
  move_elements(rows, out[0], attrs.value,
                Placement(op::channels_at_end(attrs, x.dim()), rows.shape()));
}

/** The positions in the result of one element of the operand. */
struct Images {
  std::int64_t count = 1;
  std::int64_t own[Shape::kMaxRank];  // the element's position

  __device__ Images(const Placement& placement, std::int64_t element) {
    for (int d = placement.rank - 1; d >= 0; --d) {
      element = divided(element, placement.sizes[d], own[d]);
      count *= op::PlaceImages(placement.dims[d], placement.sizes[d], own[d]).count;
    }
  }
  /** Returns the offset of copy k in the result; -1 for none. */
  __device__ std::int64_t at(const Placement& placement, std::int64_t k) const {
    std::int64_t place = 0, stride = 1;
    for (int d = placement.rank - 1; d >= 0; --d) {
      const op::PlaceImages images(placement.dims[d], placement.sizes[d], own[d]);
      std::int64_t chosen;
      k = divided(k, images.count, chosen);
      const std::int64_t o = images.at(chosen);
      if (o < 0) return -1;
      place += o * stride;
      stride *= placement.dims[d].size;
    }
    return place;
  }
};

/** Sums the gradients of all copies of each element, in their order. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    place_backward_kernel(const Placement __grid_constant__ placement, const Spread spread,
                          const Array g, const Array gx, std::int64_t count) {
  MZ_SHARED(C, room, kSpreadThreads);
  const Role at = role_in(spread);
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * spread.slots + at.slot;
  C sum = 0;
  if (element < count) {
    const Images images(placement, element);
    for (std::int64_t k = at.part; k < images.count; k += spread.parts) {
      const std::int64_t place = images.at(placement, k);
      if (place >= 0) sum += g.load<C>(place);
    }
  }
  if (spread.parts > 1) sum = joined(spread, at, room, sum, cpu_kernels::Plus{});
  if (element < count && at.part == 0) gx.store<C>(element, sum);
}

void place_backward(Inputs in, Outputs out, const op::PlaceBackward::Attrs& attrs) {
  const std::int64_t count = out[0].numel();
  if (count == 0) return;
  constexpr std::int64_t kPerThread = 16;  // copies per thread
  const Tensor g = row_major(in[0]);
  const Placement placement(attrs.place, attrs.sizes);
  const Spread spread = spread_over(count, g.numel() / count / kPerThread, false);
  with_row_major(out[0], [&](const Tensor& gx) {
    visit_floating_compute(gx.dtype(), [&]<class C>(std::type_identity<C>) {
      launch(&place_backward_kernel<C>,
             {.blocks = blocks_for(count, spread.slots), .threads = spread.threads()},
             current_stream(g.device()), placement, spread, Array(g), Array(gx), count);
    });
  });
}

}  // namespace

void attach_place() {
  attach<op::Flip, place>();
  attach<op::Pad, place>();
  attach<op::PlaceBackward, place_backward>();
  attach<op::Repeat, place>();
  attach<op::Roll, place>();
}

}  // namespace mezzo::gpu
