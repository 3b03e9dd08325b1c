// Kernels of the links of a linear chain: a product, then the steps that a GPU library may fuse.
#include "linear_chain.h"

#include "product.h"

namespace mezzo::op {

namespace {

/** Runs the product of an op of a linear chain. */
template <class Op> void run_in_chain(Inputs in, Outputs out) {
  cpu_kernels::run_product(plan(product_of(std::type_identity<Op>{}, in, out)));
}

}  // namespace

void LinearInputGrad::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  run_in_chain<LinearInputGrad>(in, out);
  differentiate_in_place(out[0], is_gelu(attrs.before) ? in[3] : in[2], attrs.before);
  if (attrs.sums) sum_columns(out[0], out[1]);
}

void LinearLink::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  Tensor& sums = attrs.keeps_sums ? out[1] : out[0];
  run_in_chain<LinearLink>(in, {&sums, 1});
  activate(sums, out[0], attrs.after);
}

void LinearWeightGrads::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  run_in_chain<LinearWeightGrads>(in, out);
  if (attrs.sums) sum_columns(in[0], out[1]);
}

}  // namespace mezzo::op
