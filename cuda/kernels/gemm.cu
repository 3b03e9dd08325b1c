// The matrix product for operands of any strides and dtypes, used where cuBLASLt is missing or does
// not support the operands.
#include "gemm.h"

#include "lines.h"
#include "tiles.h"

namespace mezzo::gpu {

namespace {

/** A batch of matrices: element (i, j) of one has the offset i * row + j * column. */
struct GemmOperand {
  void* data;
  DType dtype;
  std::int64_t row, column;
  std::int64_t batch[Shape::kMaxRank];  // in elements; 0 where broadcast
};

struct GemmProblem {
  std::int64_t entries = 1, m = 0, n = 0, k = 0;
  int rank = 0;  // of the batch
  std::int64_t batch[Shape::kMaxRank] = {};
  GemmOperand a, b, c, addend;
  double alpha, beta;
  bool left_along_terms, right_along_terms;

  /** Offsets of the matrices of one entry, in elements. */
  struct Entry {
    std::int64_t a, b, c, addend;
  };
  __device__ Entry entry(std::int64_t index) const {
    Entry at{};
    for (int i = rank - 1; i >= 0; --i) {
      const std::int64_t here = index % batch[i];
      index /= batch[i];
      at.a += here * a.batch[i];
      at.b += here * b.batch[i];
      at.c += here * c.batch[i];
      at.addend += here * addend.batch[i];
    }
    return at;
  }
  template <class C> __device__ C left(const Entry& at, std::int64_t row, std::int64_t term) const {
    return load_element<C>(a.data, a.dtype, at.a + row * a.row + term * a.column);
  }
  template <class C>
  __device__ C right(const Entry& at, std::int64_t term, std::int64_t column) const {
    return load_element<C>(b.data, b.dtype, at.b + term * b.row + column * b.column);
  }
  template <class C>
  __device__ void store(const Entry& at, std::int64_t row, std::int64_t column, C sum) const {
    C value = op::times(static_cast<C>(alpha), sum);
    if (beta != 0)
      value = op::plus(
          value, op::times(static_cast<C>(beta),
                           load_element<C>(addend.data, addend.dtype,
                                           at.addend + row * addend.row + column * addend.column)));
    store_element<C>(c.data, c.dtype, at.c + row * c.row + column * c.column, value);
  }
};

GemmOperand operand(const op::MatrixBatch& x) {
  GemmOperand out{x.data, x.dtype, x.row, x.column, {}};
  for (int i = 0; i < x.batch.rank(); ++i) out.batch[i] = x.batch[i];
  return out;
}

GemmProblem problem_of(const op::ProductPlan& plan) {
  GemmProblem p{};
  p.m = plan.m;
  p.n = plan.n;
  p.k = plan.k;
  p.rank = plan.batch.rank();
  p.a = operand(plan.a);
  p.b = operand(plan.b);
  p.c = operand(plan.c);
  p.addend = operand(plan.addend);
  p.alpha = plan.alpha;
  p.beta = plan.beta;
  p.left_along_terms = plan.a.column == 1;
  p.right_along_terms = plan.b.row == 1;
  p.entries = 1;
  for (int i = 0; i < p.rank; ++i) {
    p.batch[i] = plan.batch[i];
    p.entries *= plan.batch[i];
  }
  return p;
}

}  // namespace

void gemm(const op::ProductPlan& plan, Device device) {
  const GemmProblem problem = problem_of(plan);
  visit_compute(plan.c.dtype,
                [&]<class C>(std::type_identity<C>) { run_tiles<C>(problem, device); });
}

}  // namespace mezzo::gpu
