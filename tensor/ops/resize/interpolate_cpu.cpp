// Kernels of resizing: one sparse map along each dimension. The adjoint uses the transposed maps.
#include "interpolate.h"

#include "../../core/dispatch.h"
#include "../../cpu/block_io.h"
#include "../index/index_list_cpu.h"
#include "interpolate_terms_cpu.h"
#include "separable_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Returns the map along spatial dimension d, as sparse rows, of an operand with `operands`
 * elements there. */
template <class C>
SparseRows<C> interpolation_rows(const InterpolateAttrs& attrs, std::size_t d,
                                 std::int64_t operands) {
  SparseRows<C> rows(operands);
  const Interpolation<C> map(attrs, d, operands);
  for (std::int64_t o = 0; o < map.r.out; ++o) {
    map.for_each_term(o, [&rows](std::int64_t from, C by) { rows.add(from, by); });
    rows.finish_row();
  }
  return rows;
}

/** Computes y by applying the maps of `attrs` for an operand of these sizes to x; if `transposed`,
 *  maps results back to operands. */
template <class C>
void resize(const Tensor& x, const Tensor& y, const InterpolateAttrs& attrs, const Shape& operand,
            bool transposed) {
  // Batch and channels form one dimension with an identity map.
  SparseRows<C> planes(operand[0] * operand[1]);
  for (std::int64_t p = 0; p < planes.operands; ++p) {
    planes.add(p, 1);
    planes.finish_row();
  }
  std::vector<SparseRows<C>> maps{planes};
  for (int d = 2; d < operand.rank(); ++d) {
    const SparseRows<C> rows =
        interpolation_rows<C>(attrs, static_cast<std::size_t>(d - 2), operand[d]);
    maps.push_back(transposed ? rows.transposed() : rows);
  }
  const CastScope no_casts(nullptr);
  const Tensor from = row_major(x).to(dtype_of<C>());
  const bool direct = y.dtype() == dtype_of<C>() && y.is_contiguous();
  const Tensor to = direct ? y : empty_tensor(y.shape(), dtype_of<C>(), mezzo::cpu);
  map_separably(maps, from.template data<C>(), to.template data<C>());
  if (!direct) copy_values(to, y);
}

}  // namespace

void InterpolateFunctions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    resize<C>(in[0], out[0], attrs, in[0].shape(), false);
  });
}

void InterpolateBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    resize<C>(in[0], out[0], attrs.map, attrs.sizes, true);
  });
}

}  // namespace mezzo::op
