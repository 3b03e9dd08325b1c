// Whether the lanes of a warp load and store adjacent memory: sectors per request of copies,
// transposes and elementwise kernels. Compiled like the kernels of a sanitized emulated device, but
// without optimisation.
#include "../emulator/cuda.h"  // first, as in a kernel file

#include <mezzo.h>

#include <string>

#include "../../cuda/kernels/elementwise.h"
#include "../../cuda/kernels/transpose.h"
#include "../../tensor/ops/elementwise/compare.h"
#include "../emulator/sectors.h"
#include "../support/catch.h"
#include "../support/values.h"
#include "device.h"

using namespace mezzo;
using emulator::SectorLog, emulator::Traffic;
using testing::kDevice;
using testing::kLast;

namespace {

// ---- the counter --------------------------------------------------------------------------------

__global__ void copy_every(const float* x, float* y, int step) {
  y[threadIdx.x] = x[threadIdx.x * step];
}
__global__ void copy_packs(const gpu::Pack<float, 4>* x, gpu::Pack<float, 4>* y) {
  const gpu::Pack<float, 4> pack = x[threadIdx.x];
  y[threadIdx.x] = pack;
}
/** Loads two elements per lane one after the other. */
__global__ void sum_pairs(const float* x, float* y) {
  float sum = 0;
  for (unsigned i = 0; i < 2; ++i) sum += x[threadIdx.x * 2 + i];
  y[threadIdx.x] = sum;
}

/** Checks the traffic of one launch of 64 threads. */
template <class... Ps, class... As>
void check_launch_traffic(Traffic loads, Traffic stores, void (*kernel)(Ps...),
                          const As&... arguments) {
  const SectorLog log;
  gpu::launch(kernel, {.blocks = 1, .threads = 64}, nullptr, arguments...);
  const auto check = [](const Traffic& found, const Traffic& expected) {
    CHECK(found.requests == expected.requests);
    CHECK(found.sectors == expected.sectors);
    CHECK(found.fewest == expected.fewest);
  };
  check(log.loads(), loads);
  check(log.stores(), stores);
}

// ---- kernels ------------------------------------------------------------------------------------

/** The most sectors that a warp may move, as a multiple of the fewest: rows that are not aligned to
 *  sectors touch one more. */
constexpr double kMost = 2;

/** Copies in instrumented code, in any layout and dtype. */
void copy(const Tensor& x, Tensor& y) {
  constexpr gpu::MapFns fns{&gpu::launch_copy<float>, &gpu::launch_copy<double>,
                            &gpu::launch_copy<std::int64_t>};
  gpu::map_elements(fns, compute_dtype(x.dtype()), {&x, 1}, {&y, 1}, nullptr);
}

Tensor repeating(const Shape& shape, DType dtype) {
  return remainder(arange(checked_numel(shape, "test")), 251).reshape(shape).to(dtype).to(kDevice);
}

/** Checks the values and the traffic of a copy. Conversions of single 16-bit numbers are not seen:
 *  the compiler does not instrument operands of class type of calls. */
void check_copy(const Tensor& x, Tensor y) {
  INFO(name(x.dtype()) << " to " << name(y.dtype()) << str(x.shape()));
  const SectorLog log;
  copy(x, y);
  const Traffic loads = log.loads(), stores = log.stores();
  CHECK(loads.requests + stores.requests > 0);
  if (loads.requests > 0) CHECK(loads.ratio() <= kMost);
  if (stores.requests > 0) CHECK(stores.ratio() <= kMost);
  CHECK(y.to_vector<double>() == x.to(cpu).to(y.dtype()).expand(y.shape()).to_vector<double>());
}

/** Launches the copy that loads and stores runs of the result, in any layout. */
void launch_runs(const gpu::Map& map, const void*, gpu::runtime::Stream stream) {
  gpu::launch(&gpu::copy_kernel<float>, gpu::map_grid(map), stream, map);
}

Tensor room(const Shape& shape, DType dtype, MemoryFormat format = MemoryFormat::contiguous) {
  return zeros(shape, {.dtype = dtype, .device = kDevice}).to(format);
}

}  // namespace

TEST_CASE("the sectors of a warp's requests are counted", "[emulator][coalescing]") {
  const Tensor x = zeros({1024}, {.device = kDevice}), y = zeros({1024}, {.device = kDevice});
  const float* const from = x.data<float>();
  float* const to = y.data<float>();
  // Two warps of 128 bytes.
  const Traffic whole{2, 8, 8};
  check_launch_traffic(whole, whole, &copy_every, from, to, 1);
  check_launch_traffic({2, 10, 8}, whole, &copy_every, from + 1, to, 1);
  check_launch_traffic({2, 16, 8}, whole, &copy_every, from, to, 2);
  check_launch_traffic({2, 64, 8}, whole, &copy_every, from, to, 8);
  check_launch_traffic({2, 2, 2}, whole, &copy_every, from, to, 0);
  check_launch_traffic({2, 32, 32}, {2, 32, 32}, &copy_packs,
                       reinterpret_cast<const gpu::Pack<float, 4>*>(from),
                       reinterpret_cast<gpu::Pack<float, 4>*>(to));
  check_launch_traffic({4, 32, 16}, whole, &sum_pairs, from, to);
}

TEST_CASE("copies load and store adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    check_copy(repeating({37, 64}, dtype), room({37, 64}, dtype));
    check_copy(repeating({64}, dtype), room({5, 64}, dtype));
    check_copy(repeating({8, 64}, dtype), room({8, 64}, f32));
    check_copy(repeating({8, 64}, f32), room({8, 64}, dtype));
  }
}

TEST_CASE("transposes load and store adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    check_copy(repeating({100, 130}, dtype).t(), room({130, 100}, dtype));
    check_copy(repeating({70, 33}, dtype).t(), room({33, 70}, dtype));
    check_copy(repeating({500, 2}, dtype).t(), room({2, 500}, dtype));
    check_copy(repeating({3, 40, 2, 64}, dtype).permute({0, 3, 2, 1}), room({3, 64, 2, 40}, dtype));
    // The view is on the left.
    check_copy(repeating({64, 96}, dtype), room({96, 64}, dtype).t());
  }
  check_copy(repeating({100, 130}, f32).t(), room({130, 100}, bf16));
  check_copy(repeating({100, 130}, bf16).t(), room({130, 100}, f32));
}

TEST_CASE("a transpose without tiles loads a sector for each element", "[gpu][coalescing]") {
  const Tensor x = repeating({128, 128}, f32).t();
  Tensor y = room({128, 128}, f32);
  const SectorLog log;
  gpu::map_elements({.f32 = &launch_runs}, f32, {&x, 1}, {&y, 1}, nullptr);
  CHECK(log.loads().ratio() >= 4);
  CHECK(log.stores().ratio() == 1);
}

TEST_CASE("row-major and channels-last images are copied by adjacent memory", "[gpu][coalescing]") {
  for (const DType dtype : {u8, f16, f32})
    for (const Shape& shape : {Shape{2, 64, 14, 14}, Shape{2, 3, 20, 20}, Shape{1, 33, 7, 7}}) {
      check_copy(repeating(shape, dtype), room(shape, dtype, kLast));
      check_copy(repeating(shape, dtype).to(kLast), room(shape, dtype));
    }
  check_copy(repeating({2, 16, 3, 7, 5}, f16).to(kLast), room({2, 16, 3, 7, 5}, f32));
}

TEST_CASE("packs of f32 and bool are adjacent", "[gpu][coalescing]") {
  const AttrsOf<op::Gt> attrs{};
  const gpu::MapFns compare{.f32 = &gpu::launch_forward<op::Gt, float>,
                            .packed = &gpu::launch_packed_forward<op::Gt>};
  for (const Shape& shape : {Shape{5, 512}, Shape{7, 40}, Shape{8}})
    for (const Shape& other : {shape, Shape{1}}) {
      INFO(str(shape) << " " << str(other));
      const Tensor x[] = {repeating(shape, f32), repeating(other, f32)};
      Tensor y = room(shape, boolean);
      const SectorLog log;
      gpu::map_elements(compare, f32, x, {&y, 1}, &attrs);
      // Packs of rows that are no multiples of 256 elements are loaded in two halves of sectors.
      const double most = shape[0] == 7 ? kMost : 1;
      CHECK(log.loads().ratio() <= most);
      CHECK(log.stores().ratio() <= most);
      CHECK(y.to_vector<double>() == (x[0].to(cpu) > x[1].to(cpu)).to_vector<double>());
    }
}

TEST_CASE("bool and integer operands of elementwise kernels are vectors", "[gpu][coalescing]") {
  const gpu::MapFns compare{.f32 = &gpu::launch_forward<op::Gt, float>,
                            .i64 = &gpu::launch_forward<op::Gt, std::int64_t>};
  const AttrsOf<op::Gt> attrs{};
  for (const DType dtype : {boolean, u8, i32, i64, f16, f32}) {
    INFO(name(dtype));
    const Tensor x[] = {repeating({8, 64}, dtype), repeating({64}, dtype)};
    Tensor y = room({8, 64}, boolean);
    const SectorLog log;
    gpu::map_elements(compare, is_floating(dtype) ? f32 : i64, x, {&y, 1}, &attrs);
    CHECK(log.loads().ratio() == 1);
    CHECK(log.stores().ratio() == 1);
    CHECK(y.to_vector<double>() == (x[0].to(cpu) > x[1].to(cpu)).to_vector<double>());
  }
}
