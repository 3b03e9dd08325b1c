#include "grid_sample.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo {

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  return apply_with<op::GridSample>({options.mode, options.padding_mode, options.align_corners}, x,
                                    grid);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, const AffineGridOptions& options) {
  return apply_with<op::AffineGrid>({size, options.align_corners}, theta);
}

}  // namespace mezzo
