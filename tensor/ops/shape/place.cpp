// Shape rules and gradients of the ops in place.h.
#include "place.h"

#include <optional>

#include "../../core/dispatch.h"
#include "../../core/registry.h"

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

// Gradients of the ops that copy elements to other positions (pad, flip, roll, repeat), and of
// their adjoint.

namespace {

/** Returns the dimension of the adjoint: every element returns to its position, with 0 where it was
 *  removed. Returns nothing if elements are copied more than once. */
std::optional<PlaceDim> inverse(const PlaceDim& dim, std::int64_t n) {
  const bool rolled = dim.mode == PlaceMode::circular && dim.size == n;
  const bool at_most_once =
      dim.mode == PlaceMode::inside || dim.mode == PlaceMode::reversed || rolled;
  if (!at_most_once) return std::nullopt;
  return PlaceDim{dim.mode, -dim.begin, n};
}

/** Returns the adjoint as an op of the same kind, which moves elements without adding them. Returns
 *  nothing if elements are copied more than once. */
std::optional<PlaceAttrs> inverse(const PlaceAttrs& attrs, const Shape& sizes) {
  PlaceAttrs back;
  for (int d = 0; d < sizes.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::optional<PlaceDim> dim = inverse(attrs.dims[i], sizes[d]);
    if (!dim) return std::nullopt;
    back.dims[i] = *dim;
  }
  return back;
}

}  // namespace

Grads PlaceFunctions::backward(const Saved& saved, const Grads& gy) {
  // All of these ops have attributes of one type.
  const PlaceAttrs& attrs = saved.attrs<Pad>();
  if (const std::optional<PlaceAttrs> back = inverse(attrs, saved.shape(0)))
    return {apply_with<Pad>(*back, gy[0])};
  return {apply_with<PlaceBackward>({attrs, saved.shape(0), saved.input_meta[0].format}, gy[0])};
}

Grads PlaceBackward::backward(const Saved& saved, const Grads& gy) {
  PlaceAttrs place = saved.attrs<PlaceBackward>().place;
  place.value = 0;
  return {apply_with<Pad>(place, gy[0])};
}

}  // namespace mezzo::op
