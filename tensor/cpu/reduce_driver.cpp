#include "reduce_driver.h"

namespace mezzo::cpu_kernels {

ReductionSteps reduction_steps(const Shape& shape, std::uint32_t dims) {
  // Runs of kept and of reduced dimensions alternate; dimensions of size 1 are skipped.
  struct Run {
    std::int64_t size;
    bool reduced;
  };
  std::array<Run, Shape::kMaxRank> runs;
  std::size_t count = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = dims >> i & 1;
    if (shape[i] == 1) continue;
    if (count > 0 && runs[count - 1].reduced == reduced)
      runs[count - 1].size *= shape[i];
    else
      runs[count++] = {shape[i], reduced};
  }
  ReductionSteps steps;
  std::int64_t inner = 1;
  for (std::size_t i = count; i-- > 0;) {
    if (!runs[i].reduced) {
      inner *= runs[i].size;
      continue;
    }
    Extent step{1, runs[i].size, inner};
    for (std::size_t k = 0; k < i; ++k) step.outer *= runs[k].size;
    steps.items[steps.count++] = step;
  }
  if (steps.count == 0) steps.items[steps.count++] = {1, 1, inner};
  return steps;
}

}  // namespace mezzo::cpu_kernels
