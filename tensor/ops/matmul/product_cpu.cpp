// Kernels of the matrix products: matmul, linear, addmm and related ops.
#include "product.h"

#include <algorithm>

#include "../../cpu/gemm.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"
#include "../elementwise/formula.h"

namespace mezzo::cpu_kernels {

namespace {

using op::MatrixBatch;
using op::ProductPlan;

/** Returns one matrix of a batch, `offset` elements after the first. */
Matrix matrix_at(const MatrixBatch& x, std::int64_t offset) {
  const std::int64_t bytes = offset * static_cast<std::int64_t>(item_size(x.dtype));
  return {x.data ? static_cast<const char*>(x.data) + bytes : nullptr, x.dtype, x.row, x.column,
          x.weight};
}

/** The offsets of the matrices of batch entry `index`. */
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

/** Computes the product of integers, modulo 2^bits of their type. */
template <class T> void integer_product(const ProductPlan& plan, const Entry& at) {
  const T *a = static_cast<const T*>(plan.a.data) + at.a,
          *b = static_cast<const T*>(plan.b.data) + at.b;
  const T* addend = plan.beta == 0 ? nullptr : static_cast<const T*>(plan.addend.data) + at.addend;
  T* c = static_cast<T*>(plan.c.data) + at.c;
  const auto alpha = static_cast<std::int64_t>(plan.alpha),
             beta = static_cast<std::int64_t>(plan.beta);
  const auto row = [&](std::int64_t i) {
    const Workspace<std::int64_t> sums(plan.n);
    std::int64_t* sum = sums.data();
    std::fill_n(sum, plan.n, std::int64_t{0});
    for (std::int64_t t = 0; t < plan.k; ++t) {
      const std::int64_t factor = a[i * plan.a.row + t * plan.a.column];
      const T* line = b + t * plan.b.row;
      for (std::int64_t j = 0; j < plan.n; ++j)
        sum[j] = op::plus(sum[j], op::times<std::int64_t>(factor, line[j * plan.b.column]));
    }
    for (std::int64_t j = 0; j < plan.n; ++j) {
      std::int64_t value = op::times(alpha, sum[j]);
      if (addend)
        value = op::plus(value, op::times<std::int64_t>(
                                    beta, addend[i * plan.addend.row + j * plan.addend.column]));
      c[i * plan.c.row + j * plan.c.column] = static_cast<T>(value);
    }
  };
  parallel_for(plan.m, row,
               static_cast<double>(plan.m * plan.n) * static_cast<double>(plan.k) * 0.5);
}

void run_entry(const ProductPlan& plan, std::int64_t index) {
  const Entry at(plan, index);
  if (plan.c.dtype == DType::u8) return integer_product<std::uint8_t>(plan, at);
  if (plan.c.dtype == DType::i32) return integer_product<std::int32_t>(plan, at);
  if (plan.c.dtype == DType::i64) return integer_product<std::int64_t>(plan, at);
  const Matrix c = matrix_at(plan.c, at.c);
  gemm(plan.m, plan.n, plan.k, matrix_at(plan.a, at.a), matrix_at(plan.b, at.b),
       {const_cast<void*>(c.data), c.dtype, c.row, c.column, plan.rounds_to},
       {plan.alpha, plan.beta, matrix_at(plan.addend, at.addend)});
}

}  // namespace

void run_product(const ProductPlan& plan) {
  if (plan.c.data == nullptr) return;
  const std::int64_t count = checked_numel(plan.batch, "matmul");
  // A few large products each use all threads, one after another; many small ones are distributed
  // whole.
  const double work = static_cast<double>(plan.m * plan.n) * static_cast<double>(plan.k);
  if (count < 16 && work > 1e6)
    for (std::int64_t i = 0; i < count; ++i) run_entry(plan, i);
  else
    parallel_for(
        count, [&](std::int64_t i) { run_entry(plan, i); },
        static_cast<double>(count) * (work * 0.02 + 200));
}

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

namespace {

template <class Op> void run(Inputs in, Outputs out, const AttrsOf<Op>& attrs) {
  cpu_kernels::run_product(plan(product_of(std::type_identity<Op>{}, in, out, attrs)));
}

}  // namespace

void Addbmm::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addbmm>(in, out, attrs); }
void Addmm::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addmm>(in, out, attrs); }
void Addmv::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addmv>(in, out, attrs); }
void Addr::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Addr>(in, out, attrs); }
void Baddbmm::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<Baddbmm>(in, out, attrs); }
void Bmm::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Bmm>(in, out, attrs); }
void Linear::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Linear>(in, out, attrs); }
void MatMul::cpu(Inputs in, Outputs out, const Attrs& attrs) { run<MatMul>(in, out, attrs); }
void Mm::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Mm>(in, out, attrs); }
void Mv::cpu(Inputs in, Outputs out, const NoAttrs& attrs) { run<Mv>(in, out, attrs); }

}  // namespace mezzo::op
