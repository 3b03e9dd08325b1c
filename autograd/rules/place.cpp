// Gradients of the ops that take elements from elsewhere: each other's adjoints.
#include "../../tensor/ops/place.h"

#include <optional>

#include "../../tensor/dispatch.h"

namespace mezzo::op {

namespace {

/** The dimension that brings every element back to where it was, or 0 where it is gone; nothing where elements stand more than once. */
std::optional<PlaceDim> way_back(const PlaceDim& dim, std::int64_t n) {
  const bool rolled = dim.mode == PlaceMode::circular && dim.size == n;
  const bool at_most_once = dim.mode == PlaceMode::inside || dim.mode == PlaceMode::reversed || rolled;
  if (!at_most_once) return std::nullopt;
  return PlaceDim{dim.mode, -dim.begin, n};
}

/** The adjoint as an op of the same kind, which moves elements without adding up. */
std::optional<PlaceAttrs> way_back(const PlaceAttrs& attrs, const Shape& sizes) {
  PlaceAttrs back;
  for (int d = 0; d < sizes.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::optional<PlaceDim> dim = way_back(attrs.dims[i], sizes[d]);
    if (!dim) return std::nullopt;
    back.dims[i] = *dim;
  }
  return back;
}

}  // namespace

Grads PlaceFunctions::backward(const Saved& saved, const Grads& gy) {
  // The attributes have one type for all of these ops.
  const PlaceAttrs& attrs = saved.attrs<Pad>();
  if (const std::optional<PlaceAttrs> back = way_back(attrs, saved.shape(0)))
    return {apply_with<Pad>(*back, gy[0])};
  return {apply_with<PlaceBackward>({attrs, saved.shape(0), saved.metas[0].format}, gy[0])};
}

Grads PlaceBackward::backward(const Saved& saved, const Grads& gy) {
  PlaceAttrs place = saved.attrs<PlaceBackward>().place;
  place.value = 0;
  return {apply_with<Pad>(place, gy[0])};
}

}  // namespace mezzo::op
