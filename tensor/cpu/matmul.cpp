// Kernels of the matrix products: batches run one by one, or are handed out to threads.
#include "../ops/linear_chain.h"
#include "../parallel.h"
#include "gemm.h"

namespace mezzo::cpu_kernels {

namespace {

using op::MatrixBatch;
using op::ProductPlan;

/** One matrix of a batch, `offset` elements behind the first. */
Matrix matrix_at(const MatrixBatch& x, std::int64_t offset) {
  const std::int64_t bytes = offset * static_cast<std::int64_t>(item_size(x.dtype));
  return {x.data ? static_cast<const char*>(x.data) + bytes : nullptr, x.dtype, x.row, x.column};
}

/** Where the matrices of entry `index` lie. */
struct Entry {
  std::int64_t a = 0, b = 0, c = 0, addend = 0;

  Entry(const ProductPlan& plan, std::int64_t index) {
    for (int i = plan.batch.rank() - 1; i >= 0; --i) {
      const std::int64_t here = index % plan.batch[i];
      index /= plan.batch[i];
      a += here * plan.a.batch[i];
      b += here * plan.b.batch[i];
      c += here * plan.c.batch[i];
      addend += here * plan.addend.batch[i];
    }
  }
};

void run_entry(const ProductPlan& plan, std::int64_t index) {
  const Entry at(plan, index);
  const Matrix c = matrix_at(plan.c, at.c);
  gemm(plan.m, plan.n, plan.k, matrix_at(plan.a, at.a), matrix_at(plan.b, at.b),
       {const_cast<void*>(c.data), c.dtype, c.row, c.column},
       {plan.alpha, plan.beta, matrix_at(plan.addend, at.addend)});
}

void run(const ProductPlan& plan) {
  if (plan.c.data == nullptr) return;
  const std::int64_t count = checked_numel(plan.batch, "matmul");
  // Few large products share the threads one after another; many small ones are handed out whole.
  const double work = static_cast<double>(plan.m * plan.n) * static_cast<double>(plan.k);
  if (count < 16 && work > 1e6)
    for (std::int64_t i = 0; i < count; ++i) run_entry(plan, i);
  else
    parallel_for(
        count, [&](std::int64_t i) { run_entry(plan, i); }, static_cast<double>(count) * (work * 0.02 + 200));
}

template <class Op> void run(Inputs in, Outputs out, const AttrsOf<Op>& attrs) {
  run(op::plan(op::product_of(std::type_identity<Op>{}, in, out, attrs)));
}

}  // namespace

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

using cpu_kernels::run;

template <class Op> void run_in_chain(Inputs in, Outputs out) {
  run(plan(product_of(std::type_identity<Op>{}, in, out)));
}

void Addbmm::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addbmm>(in, out, attrs); }
void Addmm::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addmm>(in, out, attrs); }
void Addmv::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addmv>(in, out, attrs); }
void Addr::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addr>(in, out, attrs); }
void Baddbmm::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Baddbmm>(in, out, attrs); }
void Bmm::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Bmm>(in, out, attrs); }
void Linear::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Linear>(in, out, attrs); }
void LinearInputGrad::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  run_in_chain<LinearInputGrad>(in, out);
  differentiate_in_place(out[0], is_gelu(attrs.before) ? in[3] : in[2], attrs.before);
}
void LinearLink::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  Tensor& sums = attrs.keeps_sums ? out[1] : out[0];
  run_in_chain<LinearLink>(in, {&sums, 1});
  activate(sums, out[0], attrs.after);
}
void LinearWeightGrads::cpu(Inputs in, Outputs out, const NoAttrs&) {
  run_in_chain<LinearWeightGrads>(in, out);
  sum_columns(in[0], out[1]);
}
void MatMul::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<MatMul>(in, out, attrs); }
void Mm::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Mm>(in, out, attrs); }
void Mv::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Mv>(in, out, attrs); }

}  // namespace mezzo::op
