// Kernels of the matrix products: batches are folded into rows where strides allow it, else run one by one.
#include "matmul.h"

#include "../dispatch.h"
#include "../ops/addmm.h"
#include "../ops/matmul.h"
#include "../parallel.h"
#include "gemm.h"

namespace mezzo::cpu_kernels {

namespace {

/** A tensor's last two dimensions as a matrix, and how far apart the matrices of each batch dimension lie. */
struct Batch {
  Matrix matrix;
  Strides strides;  // over the result's batch dimensions, in bytes; 0 where broadcast

  Matrix at(std::int64_t bytes) const {
    Matrix x = matrix;
    if (x.data) x.data = static_cast<const char*>(x.data) + bytes;
    return x;
  }
};

Batch batch_of(const Tensor& x, const Shape& batch) {
  Batch out{{}, Strides::filled(batch.rank(), 0)};
  if (!x.defined()) return out;
  const int rank = x.dim();
  out.matrix = {x.raw_data(), x.dtype(), x.strides()[rank - 2], x.strides()[rank - 1]};
  const auto bytes = static_cast<std::int64_t>(item_size(x.dtype()));
  for (int i = 0; i < rank - 2; ++i) {
    const int to = batch.rank() - (rank - 2) + i;
    if (x.shape()[i] != 1) out.strides[to] = x.strides()[i] * bytes;
  }
  return out;
}

/** Broadcasts the addend to the result's shape: strides 0 along what it lacks. */
Tensor spread(const Tensor& addend, const Shape& shape) {
  if (!addend.defined() || addend.shape() == shape) return addend;
  Strides strides = Strides::filled(shape.rank(), 0);
  const int lead = shape.rank() - addend.dim();
  for (int i = 0; i < addend.dim(); ++i)
    if (addend.shape()[i] != 1) strides[lead + i] = addend.strides()[i];
  return alias(addend, shape, strides, addend.impl()->offset);
}

/** All dimensions before the last as one, where its memory order allows: the stride of that dimension. */
bool folds(const Tensor& x, std::int64_t& row_stride) {
  row_stride = 0;
  std::int64_t rows = 1;
  for (int i = x.dim() - 2; i >= 0; --i) {
    const std::int64_t size = x.shape()[i];
    if (size == 1) continue;
    if (rows == 1)
      row_stride = x.strides()[i];
    else if (x.strides()[i] != row_stride * rows)
      return false;
    rows *= size;
  }
  return true;
}

bool has_batch(const Tensor& x) {
  for (int i = 0; i < x.dim() - 2; ++i)
    if (x.shape()[i] != 1) return true;
  return false;
}

/** One product with all batches as rows, when b is one matrix and the others' rows continue each other. */
bool product_folded(const Tensor& a, const Tensor& b, const Tensor& c, const ProductScale& scale,
                    const Tensor& addend) {
  std::int64_t a_row, c_row, addend_row = 0;
  if (has_batch(b) || !(c.numel() / c.size(-1) == a.numel() / a.size(-1))) return false;
  if (!folds(a, a_row) || !folds(c, c_row) || (addend.defined() && !folds(addend, addend_row))) return false;
  const int r = b.dim();
  Epilogue epilogue{scale.alpha, scale.beta, {}};
  if (addend.defined())
    epilogue.addend = {addend.raw_data(), addend.dtype(), addend_row, addend.strides().back()};
  gemm(c.numel() / c.size(-1), c.size(-1), a.size(-1), {a.raw_data(), a.dtype(), a_row, a.strides().back()},
       {b.raw_data(), b.dtype(), b.strides()[r - 2], b.strides()[r - 1]},
       {c.raw_data(), c.dtype(), c_row, c.strides().back()}, epilogue);
  return true;
}

}  // namespace

Tensor with_unit_dim(const Tensor& x, int at) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, 1);
  strides.insert(at, 0);
  return alias(x, shape, strides, x.impl()->offset);
}

void product(const Tensor& a, const Tensor& b, const Tensor& c, const ProductScale& scale) {
  if (c.numel() == 0) return;
  const Tensor addend = scale.beta == 0 ? Tensor{} : spread(scale.addend, c.shape());
  if (a.numel() > 0 && product_folded(a, b, c, scale, addend)) return;
  Shape batch = c.shape();
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  const Batch as = batch_of(a, batch), bs = batch_of(b, batch), cs = batch_of(c, batch),
              addends = batch_of(addend, batch);
  const std::int64_t m = c.size(-2), n = c.size(-1), k = a.size(-1), count = c.numel() / (m * n);
  const auto one = [&](std::int64_t index) {
    std::int64_t at[4] = {};
    for (int i = batch.rank() - 1; i >= 0; --i) {
      const std::int64_t here = index % batch[i];
      index /= batch[i];
      at[0] += here * as.strides[i];
      at[1] += here * bs.strides[i];
      at[2] += here * cs.strides[i];
      at[3] += here * addends.strides[i];
    }
    const MatrixOut to{const_cast<void*>(cs.at(at[2]).data), c.dtype(), cs.matrix.row, cs.matrix.column};
    gemm(m, n, k, as.at(at[0]), bs.at(at[1]), to, {scale.alpha, scale.beta, addends.at(at[3])});
  };
  // Few large products share the threads one after another; many small ones are handed out whole.
  const double work = static_cast<double>(m * n) * static_cast<double>(k);
  const bool few = count < 16 && work > 1e6;
  if (few)
    for (std::int64_t i = 0; i < count; ++i) one(i);
  else
    parallel_for(count, one, static_cast<double>(count) * (work * 0.02 + 200));
}

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

using cpu_kernels::product;
using cpu_kernels::with_unit_dim;

void Mm::cpu(Inputs in, Outputs out, const NoAttrs&) { product(in[0], in[1], out[0]); }

void Bmm::cpu(Inputs in, Outputs out, const NoAttrs&) { product(in[0], in[1], out[0]); }

void Mv::cpu(Inputs in, Outputs out, const NoAttrs&) {
  product(in[0], with_unit_dim(in[1], 1), with_unit_dim(out[0], 1));
}

void MatMul::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  Tensor a = in[0], b = in[1], c = out[0];
  if (b.dim() == 1) c = with_unit_dim(c, c.dim());
  if (a.dim() == 1) c = with_unit_dim(c, c.dim() - 1);
  if (a.dim() == 1) a = with_unit_dim(a, 0);
  if (b.dim() == 1) b = with_unit_dim(b, 1);
  product(a, b, c, {.alpha = attrs.alpha});
}

void Linear::cpu(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor &x = in[0], &w = in[1], &b = in[2];
  const Tensor wt = alias(w, {w.size(1), w.size(0)}, {w.strides()[1], w.strides()[0]}, w.impl()->offset);
  const bool vector = x.dim() == 1;
  product(vector ? with_unit_dim(x, 0) : x, wt, vector ? with_unit_dim(out[0], 0) : out[0],
          {.beta = b.defined() ? 1.0 : 0.0, .addend = b});
}

}  // namespace mezzo::op
