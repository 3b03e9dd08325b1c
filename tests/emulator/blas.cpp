// cuBLASLt of the emulated build: computes on the host, and refuses what the library would refuse.
#include "../../cuda/blas.h"

#include "../../tensor/cpu/gemm.h"
#include "../../tensor/error.h"
#include "cuda.h"
#include "memory.h"

namespace mezzo::gpu::blas {

namespace {

void require(bool holds, const char* what) {
  if (!holds) fail<CudaError>("cublasLtMatmul", {.what = std::string("bad call: ") + what});
}

/** As the library's descriptors demand: rows that do not overlap, memory of the device. */
void check(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  require(x.data && emulator::is_device_memory(x.data), "an operand is not device memory");
  require(x.stride >= (x.transposed ? rows : columns), "rows overlap");
}

const void* at(const Matrix& x, DType dtype, std::int64_t entry) {
  return static_cast<const char*>(x.data) +
         entry * x.batch_stride * static_cast<std::int64_t>(item_size(dtype));
}

cpu_kernels::Matrix matrix(const Matrix& x, DType dtype, std::int64_t entry) {
  const cpu_kernels::Matrix stored{at(x, dtype, entry), dtype, x.stride, 1};
  return x.transposed ? stored.transposed() : stored;
}

void compute(const Gemm& g) {
  const emulator::MemoryScope scope;
  for (std::int64_t i = 0; i < g.batch; ++i) {
    cpu_kernels::Epilogue epilogue{g.alpha, g.beta, {}};
    if (g.beta != 0) epilogue.addend = matrix(g.addend, g.dtype, i);
    if (g.bias) epilogue = {g.alpha, 1, {g.bias, g.dtype, 0, 1}};
    cpu_kernels::gemm(g.m, g.n, g.k, matrix(g.a, g.dtype, i), matrix(g.b, g.dtype, i),
                      {const_cast<void*>(at(g.c, g.dtype, i)), g.dtype, g.c.stride, 1}, epilogue);
  }
}

}  // namespace

bool gemm(const Gemm& g, Device, runtime::Stream stream) {
  check(g.a, g.m, g.k);
  check(g.b, g.k, g.n);
  check(g.c, g.m, g.n);
  require(!g.c.transposed && !g.addend.transposed, "the result is transposed");
  require(!(g.bias && g.beta != 0), "a bias beside an addend");
  if (g.bias && g.dtype == DType::f64) return false;  // the library has no such epilogue
  emulator::submit({"cuBLASLt", 0, stream}, [g] { compute(g); });
  return true;
}

std::string description() { return "cuBLASLt emulated on the host"; }

}  // namespace mezzo::gpu::blas
