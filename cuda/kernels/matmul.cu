// The own CUDA kernel of all matrix products: plain tiles in shared memory, f32 accumulation for the 16-bit types. It takes any strides and dtypes
// and is what runs where no library does; it is not meant to be fast.
#include "../../tensor/ops/product.h"

#include "../attach.h"
#include "lines.h"
#include "row.h"

namespace mezzo::gpu {

namespace {

constexpr int kTile = 16;

/** A batch of matrices as the kernel reads it. */
struct Matrices {
  Array array;
  std::int64_t row = 0, column = 0;
  std::int64_t batch[Shape::kMaxRank] = {};

  Matrices() = default;
  Matrices(const op::MatrixBatch& x, int rank) : row(x.row), column(x.column) {
    array.data = x.data;
    array.dtype = x.dtype;
    for (int i = 0; i < rank && x.data; ++i) batch[i] = x.batch[i];
  }
};

struct Products {
  std::int64_t m, n, k, tiles_down, tiles_across;
  int rank;
  std::int64_t sizes[Shape::kMaxRank] = {};
  Matrices a, b, c, addend;
  double alpha, beta;
};

/** Where the matrices of one entry of the batch begin. */
struct Entry {
  std::int64_t a = 0, b = 0, c = 0, addend = 0;

  __device__ Entry(const Products& p, std::int64_t index) {
    for (int i = p.rank - 1; i >= 0; --i) {
      const std::int64_t here = index % p.sizes[i];
      index /= p.sizes[i];
      a += here * p.a.batch[i];
      b += here * p.b.batch[i];
      c += here * p.c.batch[i];
      addend += here * p.addend.batch[i];
    }
  }
};

/** One tile of one entry's result per block, one element of it per thread. */
template <class C>
__global__ void __launch_bounds__(kTile* kTile) product_kernel(const __grid_constant__ Products p) {
  MZ_SHARED(C, left, kTile * kTile);
  MZ_SHARED(C, right, kTile * kTile);
  const std::int64_t tile = blockIdx.x % (p.tiles_down * p.tiles_across);
  const Entry at(p, blockIdx.x / (p.tiles_down * p.tiles_across));
  const int y = static_cast<int>(threadIdx.x) / kTile, x = static_cast<int>(threadIdx.x) % kTile;
  const std::int64_t i = tile / p.tiles_across * kTile + y, j = tile % p.tiles_across * kTile + x;
  C total = 0;
  for (std::int64_t first = 0; first < p.k; first += kTile) {
    left[y * kTile + x] =
        i < p.m && first + x < p.k ? p.a.array.load<C>(at.a + i * p.a.row + (first + x) * p.a.column) : C(0);
    right[y * kTile + x] =
        j < p.n && first + y < p.k ? p.b.array.load<C>(at.b + (first + y) * p.b.row + j * p.b.column) : C(0);
    __syncthreads();
    for (int r = 0; r < kTile; ++r) total = std::fma(left[y * kTile + r], right[r * kTile + x], total);
    __syncthreads();
  }
  if (i >= p.m || j >= p.n) return;
  C value = static_cast<C>(p.alpha) * total;
  if (p.addend.array.data)
    value +=
        static_cast<C>(p.beta) * p.addend.array.load<C>(at.addend + i * p.addend.row + j * p.addend.column);
  p.c.array.store<C>(at.c + i * p.c.row + j * p.c.column, value);
}

void run(const op::ProductPlan& plan, Device device) {
  if (!plan.c.data || plan.m == 0 || plan.n == 0) return;
  Products p{.m = plan.m,
             .n = plan.n,
             .k = plan.k,
             .tiles_down = blocks_for(plan.m, kTile),
             .tiles_across = blocks_for(plan.n, kTile),
             .rank = plan.batch.rank(),
             .a = {plan.a, plan.batch.rank()},
             .b = {plan.b, plan.batch.rank()},
             .c = {plan.c, plan.batch.rank()},
             .addend = {plan.addend, plan.batch.rank()},
             .alpha = plan.alpha,
             .beta = plan.beta};
  std::int64_t entries = 1;
  for (int i = 0; i < plan.batch.rank(); ++i) {
    p.sizes[i] = plan.batch[i];
    entries *= plan.batch[i];
  }
  visit_floating(plan.c.dtype, [&]<class C>(std::type_identity<C>) {
    launch(&product_kernel<C>, {.blocks = entries * p.tiles_down * p.tiles_across, .threads = kTile * kTile},
           current_stream(device), p);
  });
}

template <class Op> void product(Inputs in, Outputs out, const AttrsOf<Op>& attrs) {
  run(op::plan(op::product_of(std::type_identity<Op>{}, in, out, attrs)), out[0].device());
}

template <class... Ops> void attach_products(type_list<Ops...>) { (attach<Ops, product<Ops>>(), ...); }

}  // namespace

void attach_matmul() { attach_products(op::ProductOps{}); }

}  // namespace mezzo::gpu
