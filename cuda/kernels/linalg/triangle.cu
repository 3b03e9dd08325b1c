// The CUDA kernels of tril and triu.
#include "../../../tensor/ops/linalg/triangle.h"

#include <algorithm>

#include "../../attach.h"
#include "../move.h"

namespace mezzo::gpu {

namespace {

/** Move that keeps the elements on one side of a diagonal. */
struct Triangle {
  std::int64_t rows, columns, diagonal;
  bool lower;

  __device__ std::int64_t source(std::int64_t i) const {
    std::int64_t column, row;
    divided(divided(i, columns, column), rows, row);
    const std::int64_t distance = column - row;
    return (lower ? distance <= diagonal : distance >= diagonal) ? i : -1;
  }
};

void keep(const Tensor& operand, const Tensor& y, std::int64_t diagonal, bool lower) {
  if (y.numel() == 0) return;
  const Tensor x = row_major(operand);
  move_elements(x, y, 0, Triangle{y.shape()[y.dim() - 2], y.shape()[y.dim() - 1], diagonal, lower});
}

void tril(Inputs in, Outputs out, const op::TriangleAttrs& attrs) {
  keep(in[0], out[0], attrs.diagonal, true);
}
void triu(Inputs in, Outputs out, const op::TriangleAttrs& attrs) {
  keep(in[0], out[0], attrs.diagonal, false);
}

}  // namespace

void attach_triangle() {
  attach<op::Tril, tril>();
  attach<op::Triu, triu>();
}

}  // namespace mezzo::gpu
