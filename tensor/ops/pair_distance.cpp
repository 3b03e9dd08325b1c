// Shape rules of the kernels of distances between all pairs of vectors; the public ops have checked their operands before.
#include "pair_distance.h"

namespace mezzo::op {

OutSpecs PairDistance::infer(Inputs in, const Attrs&) {
  return {{{in[0].size(0), in[0].size(1), in[1].size(1)}, in[0].dtype()}};
}

OutSpecs PairDistanceBackward::infer(Inputs in, const Attrs&) { return {{in[2].shape(), in[2].dtype()}}; }

OutSpecs TriangleDistance::infer(Inputs in, const Attrs&) {
  const std::int64_t n = in[0].size(0);
  return {{{n == 0 ? 0 : n * (n - 1) / 2}, in[0].dtype()}};
}

OutSpecs TriangleDistanceBackward::infer(Inputs in, const Attrs&) { return {{in[2].shape(), in[2].dtype()}}; }

}  // namespace mezzo::op
