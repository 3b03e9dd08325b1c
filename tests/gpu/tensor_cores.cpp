// The emulator's Tensor Cores: correct products in every schedule; forbidden or unspecified use is
// detected.
#include "../emulator/cuda.h"  // first, as in a kernel file

#include <mezzo.h>

#include "../../cuda/kernels/tensor_core.h"
#include "../support/catch.h"
#include "emulation.h"

using namespace mezzo;
using namespace emulation;
using namespace mezzo::gpu;

namespace {

const Device kDevice{DeviceKind::cuda, 0};

constexpr int kNumbers = kPatch * kPatch, kPitch = 24;

struct alignas(32) Line {
  unsigned char bytes[32];
};

enum class Bug {
  none,
  no_barrier_before,   // between writing a factor and loading it
  no_barrier_after,    // between storing the sums and reading them
  address,             // 16 bytes too far
  pitch,               // lines 8 bytes too far apart
  missing_lane,        // the last lane does not take part
  different_pointers,  // half the lanes load the other factor
  different_places,    // half the lanes multiply at another place
  trusted_layout       // assumes that a lane holds 8 neighbours
};

/** Computes y = a b^T + c for matrices of 16 x 16. */
template <class T, Bug bug = Bug::none>
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
    sums[at] = c[i];
  }
  if (bug != Bug::no_barrier_before) __syncwarp();
  LeftPatch<T> x;
  RightTransposed<T> z;
  SumPatch sum;
  const T* const from = bug == Bug::address                          ? left + 8
                        : bug == Bug::different_pointers && lane < 9 ? right
                                                                     : left;
  load_patch(x, from, bug == Bug::pitch ? kPitch + 4 : kPitch);
  load_patch(z, right, kPitch);
  wmma::load_matrix_sync(sum, sums, kPitch, wmma::mem_row_major);
  if (bug == Bug::missing_lane && lane == 31) return;
  if (bug == Bug::different_places && lane < 16)
    wmma::mma_sync(sum, x, z, sum);
  else
    wmma::mma_sync(sum, x, z, sum);
  if (bug == Bug::trusted_layout) {
    for (int i = 0; i < SumPatch::num_elements; ++i)
      y[lane * SumPatch::num_elements + i] = sum.x[i];
    return;
  }
  store_patch(sums, sum, kPitch);
  if (bug != Bug::no_barrier_after) __syncwarp();
  for (int i = lane; i < kNumbers; i += kWarpSize) y[i] = sums[i / kPatch * kPitch + i % kPatch];
}

/** Returns small integers, whose products and sums are exact in any order. */
Tensor numbers(int step) {
  std::vector<double> values;
  for (int i = 0; i < kNumbers; ++i) values.push_back(static_cast<double>(i * step % 23) - 11);
  return tensor(values, {kPatch, kPatch});
}

template <class T, Bug bug> std::vector<double> product(Schedule schedule) {
  const ScheduleScope scope(schedule);
  const Tensor a = numbers(7).to(kDevice), b = numbers(5).to(kDevice), c = numbers(3).to(kDevice),
               y = empty({kPatch, kPatch}, {.device = kDevice});
  launch(&multiply<T, bug>, {.threads = kWarpSize}, nullptr, a.data<float>(), b.data<float>(),
         c.data<float>(), y.data<float>());
  return y.to_vector<double>();
}

std::vector<double> expected() {
  return (matmul(numbers(7), numbers(5).t()) + numbers(3)).to_vector<double>();
}

template <Bug bug> int wrong_schedules() {
  int wrong = 0;
  for (const Schedule schedule : kSchedules)
    wrong += product<Half, bug>(schedule) != expected() ? 1 : 0;
  return wrong;
}

template <Bug bug> bool faults_with(const char* text) {
  const std::string fault = fault_of([] { product<Half, bug>(Schedule::forward); });
  INFO(fault);
  return fault.find(text) != std::string::npos;
}

/** Reports what a lane finds of its numbers' rows, of numbers it did not set, and of the address of
 *  shared memory. */
__global__ void look(float* wrong_rows, float* unset, float* places) {
  MZ_SHARED(Line, room, kPatch * kPitch * static_cast<int>(sizeof(float)) / 32);
  float* const sums = reinterpret_cast<float*>(room);
  const PatchRows rows(sums, kPitch);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < kNumbers; i += kWarpSize)
    sums[i / kPatch * kPitch + i % kPatch] = static_cast<float>(i);
  __syncwarp();
  SumPatch numbers, nothing;
  wmma::load_matrix_sync(numbers, sums, kPitch, wmma::mem_row_major);
  wrong_rows[lane] = 0;
  for (int i = 0; i < SumPatch::num_elements; ++i)
    if (static_cast<int>(numbers.x[i]) / kPatch != rows.row[i]) ++wrong_rows[lane];
  unset[lane] = nothing.x[0];
  places[lane] = static_cast<float>(reinterpret_cast<std::uintptr_t>(room) % 64);
}

}  // namespace

TEST_CASE("products on Tensor Cores are the same in every schedule", "[emulator]") {
  for (const Schedule schedule : kSchedules) {
    CHECK(product<Half, Bug::none>(schedule) == expected());
    CHECK(product<BFloat16, Bug::none>(schedule) == expected());
  }
}

TEST_CASE("loads with an invalid address or pitch are faults", "[emulator]") {
  CHECK(faults_with<Bug::address>("no multiple of 32 bytes"));
  CHECK(faults_with<Bug::pitch>("no multiple of 16 bytes"));
}

TEST_CASE("products in which lanes diverge are faults", "[emulator]") {
  CHECK(faults_with<Bug::missing_lane>(
      "31 of 32 are still in the kernel, some for lanes of their warp"));
  CHECK(faults_with<Bug::different_pointers>("different matrices"));
  CHECK(faults_with<Bug::different_places>("different places"));
  CHECK(product<Half, Bug::none>(Schedule::forward) == expected());  // faults leave no state behind
}

TEST_CASE("memory accesses of Tensor Cores need barriers", "[emulator]") {
  CHECK(wrong_schedules<Bug::no_barrier_before>() == 4);
  CHECK(wrong_schedules<Bug::no_barrier_after>() == 4);
}

TEST_CASE("the layout of sums is unspecified but can be determined", "[emulator]") {
  CHECK(wrong_schedules<Bug::trusted_layout>() == 4);
  const Tensor wrong = empty({32}, {.device = kDevice}), unset = empty({32}, {.device = kDevice}),
               places = empty({32}, {.device = kDevice});
  launch(&look, {.threads = kWarpSize}, nullptr, wrong.data<float>(), unset.data<float>(),
         places.data<float>());
  CHECK(amax(wrong).item<double>() == 0);
  CHECK(!any(isfinite(unset)).item<bool>());
  CHECK(amin(places).item<double>() == 32);  // aligned as its type requires, and not more
}
