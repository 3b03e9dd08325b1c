// cuBLASLt of the emulated build: computes on the host, and refuses what the library would refuse.
#include "../../cuda/blas.h"

#include "../../tensor/cpu/gemm.h"
#include "../../tensor/error.h"
#include "../../tensor/half.h"
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

std::int64_t mask_bytes(const Gemm& g) { return (g.m - 1) * g.epilogue.mask_stride / 8 + (g.n + 7) / 8; }

/** The bit of an element in a mask: 1 where relu left it as it was. */
struct MaskBit {
  std::uint8_t* byte;
  std::uint8_t bit;
  MaskBit(const Gemm& g, std::int64_t i, std::int64_t j)
      : byte(static_cast<std::uint8_t*>(g.epilogue.memory) + (i * g.epilogue.mask_stride + j) / 8),
        bit(static_cast<std::uint8_t>(1u << (j % 8))) {}
};

template <class T> void relu(const Gemm& g) {
  T* c = static_cast<T*>(const_cast<void*>(g.c.data));
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      T& value = c[i * g.c.stride + j];
      const float x = static_cast<float>(value);
      const MaskBit at(g, i, j);
      *at.byte = static_cast<std::uint8_t>(x > 0 ? *at.byte | at.bit : *at.byte & ~at.bit);
      if (x <= 0) value = static_cast<T>(0.0f);
    }
}

template <class T> void gate(const Gemm& g) {
  T* c = static_cast<T*>(const_cast<void*>(g.c.data));
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j)
      if (const MaskBit at(g, i, j); !(*at.byte & at.bit)) c[i * g.c.stride + j] = static_cast<T>(0.0f);
}

template <class T> void row_sums(const Gemm& g) {
  const T* a = static_cast<const T*>(g.a.data);
  for (std::int64_t i = 0; i < g.m; ++i) {
    float sum = 0;
    for (std::int64_t p = 0; p < g.k; ++p)
      sum += static_cast<float>(a[g.a.transposed ? p * g.a.stride + i : i * g.a.stride + p]);
    static_cast<T*>(g.epilogue.memory)[i] = static_cast<T>(sum);
  }
}

template <class T> void finish(const Gemm& g) {
  switch (g.epilogue.kind) {
    case Epilogue::Kind::relu: return relu<T>(g);
    case Epilogue::Kind::gate: return gate<T>(g);
    case Epilogue::Kind::row_sums: return row_sums<T>(g);
    case Epilogue::Kind::none: break;
  }
}

void check_epilogue(const Gemm& g) {
  const Epilogue& e = g.epilogue;
  if (e.kind == Epilogue::Kind::none) return;
  require(g.batch == 1, "an epilogue of a batch");
  require(emulator::is_device_memory(e.memory), "what the epilogue needs is not device memory");
  if (e.kind == Epilogue::Kind::row_sums) return require(!g.bias, "a bias beside sums of rows");
  require(e.mask_stride % 128 == 0 && e.mask_stride >= g.n, "rows of the mask are not whole words");
  require(emulator::is_device_memory(static_cast<char*>(e.memory) + mask_bytes(g) - 1),
          "the mask ends behind its memory");
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
  if (g.dtype == DType::f16)
    finish<Half>(g);
  else if (g.dtype == DType::bf16)
    finish<BFloat16>(g);
  else
    finish<float>(g);
}

}  // namespace

bool gemm(const Gemm& g, Device, runtime::Stream stream) {
  check(g.a, g.m, g.k);
  check(g.b, g.k, g.n);
  check(g.c, g.m, g.n);
  require(!g.c.transposed && !g.addend.transposed, "the result is transposed");
  require(!(g.bias && g.beta != 0), "a bias beside an addend");
  check_epilogue(g);
  const bool finishes = g.bias || g.epilogue.kind != Epilogue::Kind::none;
  if (finishes && g.dtype == DType::f64) return false;  // the library has no such epilogue
  emulator::submit({"cuBLASLt", 0, stream}, [g] { compute(g); });
  return true;
}

std::string description() { return "cuBLASLt emulated on the host"; }

}  // namespace mezzo::gpu::blas
