// Matrix products on the device: cuBLASLt where it supports the operands, else the kernel of
// gemm.h.
#include "product.h"

#include <algorithm>
#include <limits>

#include "../attach.h"
#include "../kernels/gemm.h"
#include "../kernels/host_lines.h"
#include "../own_kernels.h"
#include "../runtime/device.h"
#include "blas.h"
#include "key.h"

namespace mezzo::gpu {

namespace {

using op::MatrixBatch;
using op::ProductPlan;

// cuBLASLt supports one dtype, or f32 results of 16-bit operands, contiguous rows or columns, and
// batches with one stride.

/** Sets `stride` to the distance of neighbours in the batch. Returns false if it is not uniform. */
bool batch_stride(const ProductPlan& plan, const MatrixBatch& x, std::int64_t& stride) {
  stride = 0;
  std::int64_t entries = 1;
  for (int i = plan.batch.rank() - 1; i >= 0; --i) {
    if (plan.batch[i] == 1) continue;
    if (entries == 1)
      stride = x.batch[i];
    else if (x.batch[i] != stride * entries)
      return false;
    entries *= plan.batch[i];
  }
  return true;
}

/** Describes a matrix whose rows or columns are contiguous and do not overlap; returns false for
 *  others. */
bool as_stored(const ProductPlan& plan, const MatrixBatch& x, std::int64_t rows,
               std::int64_t columns, blas::Matrix& out) {
  out.data = x.data;
  if (!batch_stride(plan, x, out.batch_stride)) return false;
  // The row stride of a matrix with one row is arbitrary.
  const std::int64_t row = rows == 1 ? std::max(x.row, columns) : x.row;
  const std::int64_t column = columns == 1 ? std::max(x.column, rows) : x.column;
  out.transposed = !((x.column == 1 || columns == 1) && row >= columns);
  if (!out.transposed) {
    out.stride = row;
    return true;
  }
  out.stride = column;
  return (x.row == 1 || rows == 1) && column >= rows;
}

/** Returns true if the addend is a vector over the columns, the same for every row and every batch
 *  entry. */
bool is_bias(const ProductPlan& plan) {
  for (int i = 0; i < plan.batch.rank(); ++i)
    if (plan.addend.batch[i] != 0 && plan.batch[i] != 1) return false;
  return plan.beta == 1 && (plan.addend.row == 0 || plan.m == 1) && plan.addend.column == 1;
}

/** Returns whether the result has no elements. */
bool is_empty(const ProductPlan& plan) {
  return plan.m == 0 || plan.n == 0 ||
         std::any_of(plan.batch.begin(), plan.batch.end(), [](std::int64_t n) { return n == 0; });
}

bool fits_blas(const ProductPlan& plan, blas::Gemm& gemm) {
  if (OwnKernels::active()) return false;
  const DType dtype = plan.a.dtype, result = plan.c.dtype;
  const bool adds = plan.beta != 0, widens = is_low(dtype) && result == DType::f32;
  if (!is_floating(dtype) || plan.b.dtype != dtype || (result != dtype && !widens)) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (is_empty(plan) || plan.k == 0 || plan.m > kMost || plan.n > kMost || plan.k > kMost)
    return false;
  gemm = {
      .dtype = dtype, .result = result, .m = plan.m, .n = plan.n, .k = plan.k, .alpha = plan.alpha};
  for (int i = 0; i < plan.batch.rank(); ++i) gemm.batch *= plan.batch[i];
  if (gemm.batch > kMost || !as_stored(plan, plan.a, plan.m, plan.k, gemm.a) ||
      !as_stored(plan, plan.b, plan.k, plan.n, gemm.b) ||
      !as_stored(plan, plan.c, plan.m, plan.n, gemm.c) || gemm.c.transposed)
    return false;
  if (!adds) return true;
  if (is_bias(plan)) {
    gemm.bias = plan.addend.data;
    return true;
  }
  gemm.beta = plan.beta;
  return plan.addend.dtype == result && as_stored(plan, plan.addend, plan.m, plan.n, gemm.addend) &&
         !gemm.addend.transposed;
}

/** Copies the call's bias unless it has the dtype of the result, which cuBLASLt requires, and
 *  begins at a multiple of 16 bytes: its heuristics take the alignment of matrices only. Returns
 *  the copy, or an undefined tensor. */
Tensor prepare_bias(const ProductPlan& plan, blas::Gemm& call, Device device) {
  constexpr std::int64_t kBytes = 16;
  if (!call.bias || (plan.addend.dtype == call.result && alignment(call.bias) >= kBytes)) return {};
  const Tensor copy = workspace(plan.n * static_cast<std::int64_t>(item_size(call.result)), device);
  call.bias = copy.raw_data();
  gemm({.m = 1,
        .n = plan.n,
        .c = {copy.raw_data(), call.result, plan.n, 1},
        .addend = {plan.addend.data, plan.addend.dtype, 0, 1},
        .beta = 1},
       device);
  return copy;
}

/** Returns the product's result, which the library has computed, and that of Mezzo's own kernel, as
 *  dense copies. */
std::vector<ResultPair> results_of(const ProductPlan& plan, Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  Strides batch = plan.batch;
  std::int64_t elements = plan.m * plan.n;
  for (int i = plan.batch.rank() - 1; i >= 0; --i) {
    batch[i] = elements;
    elements *= plan.batch[i];
  }
  const Tensor library = empty_tensor({elements}, plan.c.dtype, device),
               own = empty_tensor({elements}, plan.c.dtype, device);
  const auto matrices = [&](const Tensor& x) {
    return MatrixBatch{x.raw_data(), plan.c.dtype, plan.n, 1, batch};
  };
  gemm({.m = plan.m,
        .n = plan.n,
        .batch = plan.batch,
        .c = matrices(library),
        .addend = plan.c,
        .beta = 1},
       device);
  ProductPlan again = plan;
  again.c = matrices(own);
  gemm(again, device);
  return {{library, own}};
}

template <class Op> void product(Inputs in, Outputs out, const AttrsOf<Op>& attrs) {
  run_product(op::plan(op::product_of(std::type_identity<Op>{}, in, out, attrs)), out[0].device());
}

template <class... Ops> void attach_products(type_list<Ops...>) {
  (attach<Ops, product<Ops>>(), ...);
}

}  // namespace

bool run_product_with(const blas::Epilogue& epilogue, const op::ProductPlan& plan, Device device,
                      const ResultPairs& pairs) {
  blas::Gemm call;
  if (!plan.c.data || !fits_blas(plan, call) || call.batch != 1 || call.result != call.dtype)
    return false;
  call.epilogue = epilogue;
  const Tensor bias = prepare_bias(plan, call, device);
  return blas::gemm(call, device, current_stream(device), pairs);
}

void run_product(const op::ProductPlan& plan, Device device) {
  if (!plan.c.data || is_empty(plan)) return;
  blas::Gemm call;
  if (fits_blas(plan, call)) {
    const Tensor bias = prepare_bias(plan, call, device);
    ResultPairs pairs;
    if (call.bias) pairs = [&] { return results_of(plan, device); };
    if (blas::gemm(call, device, current_stream(device), pairs)) return;
  }
  gemm(plan, device);
}

// Dot and Vecdot are sums, not matrix products, and have their own kernels.
void attach_product() {
  attach_products(type_list<op::Addbmm, op::Addmm, op::Addmv, op::Addr, op::Baddbmm, op::Bmm,
                            op::Linear, op::MatMul, op::Mm, op::Mv>{});
}

}  // namespace mezzo::gpu
