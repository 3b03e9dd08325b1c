// The emulator's Tensor Cores: correct products in every schedule; forbidden or unspecified use is
// detected.
#include "../emulator/cuda.h"  // first, as in a kernel file

#include <mezzo.h>

#include "../../cuda/kernels/tensor_core.h"
#include "../support/catch.h"
#include "device.h"
#include "emulation.h"

using namespace mezzo;
using namespace emulation;
using namespace mezzo::gpu;
using testing::kDevice;

namespace {

constexpr int kNumbers = kPatch * kPatch, kPitch = 24;

struct alignas(32) Line {
  unsigned char bytes[32];
};

enum class TileBug {
  none,
  no_barrier_before,  // between writing a factor and loading it
  no_barrier_after,   // between storing the sums and reading them
  address,            // 8 bytes too far
  pitch,              // lines 8 bytes too far apart
  missing_lane,       // the last lane does not take part
  different_places    // half the lanes load instead of multiplying
};

/** Computes y = a b^T + c, or a b + c, for matrices of 16 x 16. */
template <class T, bool kTransposed, TileBug bug>
__global__ void multiply(const float* a, const float* b, const float* c, float* y) {
  MZ_SHARED(Line, left_room, kPatch * kPitch * static_cast<int>(sizeof(T)) / 32);
  MZ_SHARED(Line, right_room, kPatch * kPitch * static_cast<int>(sizeof(T)) / 32);
  MZ_SHARED(Line, sum_room, kPatch * kPitch * static_cast<int>(sizeof(float)) / 32);
  T* const left = reinterpret_cast<T*>(left_room);
  T* const right = reinterpret_cast<T*>(right_room);
  float* const sums = reinterpret_cast<float*>(sum_room);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < kNumbers; i += kWarpSize) {
    const int at = i / kPatch * kPitch + i % kPatch;
    left[at] = T(a[i]);
    right[at] = T(b[i]);
  }
  if (bug != TileBug::no_barrier_before) __syncwarp();
  const LeftWords x = load_left(bug == TileBug::address ? left + 4 : left,
                                bug == TileBug::pitch ? kPitch + 4 : kPitch);
  const RightPatch z = kTransposed ? load_transposed(right, kPitch) : load_right(right, kPitch);
  SumPatch sum;
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half)
      sum.half[half].value[i] =
          c[(first_row_of_sums() + i / 2 * 8) * kPatch + half * 8 + lane % 4 * 2 + i % 2];
  if (bug == TileBug::missing_lane && lane == 31) return;
  if (bug == TileBug::different_places && lane < 16)
    load_left(left, kPitch);
  else
    add_product<T>(sum, x, z);
  store_patch(sums, sum, kPitch);
  if (bug != TileBug::no_barrier_after) __syncwarp();
  for (int i = lane; i < kNumbers; i += kWarpSize) y[i] = sums[i / kPatch * kPitch + i % kPatch];
}

/** Returns small integers, whose products and sums are exact in any order. */
Tensor numbers(int step) {
  std::vector<double> values;
  for (int i = 0; i < kNumbers; ++i) values.push_back(static_cast<double>(i * step % 23) - 11);
  return tensor(values, {kPatch, kPatch});
}

template <class T, bool kTransposed, TileBug bug> std::vector<double> product(Schedule schedule) {
  const ScheduleScope scope(schedule);
  const Tensor a = numbers(7).to(kDevice), b = numbers(5).to(kDevice), c = numbers(3).to(kDevice),
               y = empty({kPatch, kPatch}, {.device = kDevice});
  launch(&multiply<T, kTransposed, bug>, {.threads = kWarpSize}, nullptr, a.data<float>(),
         b.data<float>(), c.data<float>(), y.data<float>());
  return y.to_vector<double>();
}

std::vector<double> expected_sums(bool transposed) {
  const Tensor b = transposed ? numbers(5).t() : numbers(5);
  return (matmul(numbers(7), b) + numbers(3)).to_vector<double>();
}

template <TileBug bug> int wrong_products() {
  int wrong = 0;
  for (const Schedule schedule : kSchedules)
    wrong += product<Half, true, bug>(schedule) != expected_sums(true) ? 1 : 0;
  return wrong;
}

template <TileBug bug> bool faults_with(const char* text) {
  const std::string fault = fault_of([] { product<Half, true, bug>(Schedule::forward); });
  INFO(fault);
  return fault.find(text) != std::string::npos;
}

/** Reports the address of shared memory. */
__global__ void look(float* places) {
  MZ_SHARED(Line, room, 4);
  places[threadIdx.x] = static_cast<float>(reinterpret_cast<std::uintptr_t>(room) % 64);
}

}  // namespace

TEST_CASE("products on Tensor Cores are the same in every schedule", "[emulator]") {
  for (const Schedule schedule : kSchedules) {
    CHECK(product<Half, true, TileBug::none>(schedule) == expected_sums(true));
    CHECK(product<BFloat16, true, TileBug::none>(schedule) == expected_sums(true));
    CHECK(product<Half, false, TileBug::none>(schedule) == expected_sums(false));
    CHECK(product<BFloat16, false, TileBug::none>(schedule) == expected_sums(false));
  }
}

TEST_CASE("loads with an invalid address or pitch are faults", "[emulator]") {
  CHECK(faults_with<TileBug::address>("no multiple of 16 bytes"));
  CHECK(faults_with<TileBug::pitch>("no multiple of 16 bytes"));
}

TEST_CASE("products in which lanes diverge are faults", "[emulator]") {
  CHECK(faults_with<TileBug::missing_lane>(
      "31 of 32 are still in the kernel, some for lanes of their warp"));
  CHECK(faults_with<TileBug::different_places>("different places"));
  // faults leave no state behind
  CHECK(product<Half, true, TileBug::none>(Schedule::forward) == expected_sums(true));
}

TEST_CASE("memory accesses of Tensor Cores need barriers", "[emulator]") {
  CHECK(wrong_products<TileBug::no_barrier_before>() == 4);
  CHECK(wrong_products<TileBug::no_barrier_after>() == 4);
}

TEST_CASE("shared memory is aligned as its type requires, and not more", "[emulator]") {
  const Tensor places = empty({32}, {.device = kDevice});
  launch(&look, {.threads = kWarpSize}, nullptr, places.data<float>());
  CHECK(amin(places).item<double>() == 32);
}
