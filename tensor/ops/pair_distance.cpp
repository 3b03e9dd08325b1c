// Shape rules of the internal ops of cdist and pdist, which check the operands.
#include "pair_distance.h"

#include "../core/checked_size.h"
#include "../core/registry.h"

namespace mezzo::op {

OutSpecs PairDistance::infer(Inputs in, const Attrs&) {
  return {{{in[0].size(0), in[0].size(1), in[1].size(1)}, in[0].dtype()}};
}

OutSpecs PairDistanceBackward::infer(Inputs in, const Attrs&) {
  return {{in[2].shape(), in[2].dtype()}};
}

OutSpecs TriangleDistance::infer(Inputs in, const Attrs&) {
  const WideSize n = in[0].size(0);
  return {{{checked_size(n * (n - 1) / 2, "pdist")}, in[0].dtype()}};
}

OutSpecs TriangleDistanceBackward::infer(Inputs in, const Attrs&) {
  return {{in[2].shape(), in[2].dtype()}};
}

std::span<OpInfo* const> pair_distance_ops() { return infos_of(PairDistanceOps{}); }

}  // namespace mezzo::op
