// Shape rules of the ops that copy each element from one position. The public functions in
// autograd/ops/ check the options.
#include "place.h"

#include "../core/dispatch.h"
#include "../core/registry.h"

namespace mezzo::op {

OutSpecs PlaceFunctions::infer(Inputs in, const Attrs& attrs) {
  Shape shape = in[0].shape();
  for (int i = 0; i < shape.rank(); ++i) shape[i] = attrs.dims[static_cast<std::size_t>(i)].size;
  return {{shape, in[0].dtype()}};
}

OutSpecs PlaceBackward::infer(Inputs in, const Attrs& attrs) {
  return {{.shape = attrs.sizes, .dtype = in[0].dtype(), .format = attrs.format}};
}

PlaceAttrs channels_at_end(const PlaceAttrs& attrs, int rank) {
  PlaceAttrs moved = attrs;
  for (int place = 0; place < rank; ++place)
    moved.dims[static_cast<std::size_t>(place)] =
        attrs.dims[static_cast<std::size_t>(dim_at(MemoryFormat::channels_last, rank, place))];
  return moved;
}

std::span<OpInfo* const> place_ops() { return infos_of(PlaceOps{}); }

}  // namespace mezzo::op
