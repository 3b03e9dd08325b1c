// Our own attention kernels: which one serves a call; those on Tensor Cores against those for
// devices without Tensor Cores, and against f64.
#include <mezzo.h>

#include <iostream>

#include "../emulator/counters.h"
#include "../support/catch.h"
#include "attention.h"
#include "emulation.h"

using namespace attention;
using namespace emulation;

namespace {

double worst_before[2] = {}, worst_now[2] = {};  // errors of results and of gradients

/** Checks that the Tensor Core kernels are as accurate as the others, which round once. */
void check_accuracy(const Call& call) {
  const std::vector<Tensor> exact = attention_results(call, f64, cpu);
  for (const DType dtype : {f16, bf16}) {
    const std::vector<Tensor> now = attention_results(call, dtype, kDevice);
    const CapabilityScope old(kWithoutTensorCores);
    const std::vector<Tensor> before = attention_results(call, dtype, kDevice);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double was = error(before[i], exact[i], dtype), is = error(now[i], exact[i], dtype);
      INFO(name(dtype) << " result " << i);
      CHECK(is <= 1.1 * was + 0.05);
      worst_before[i > 0] = std::max(worst_before[i > 0], was);
      worst_now[i > 0] = std::max(worst_now[i > 0], is);
    }
  }
}

constexpr Sizes kSizes[] = {{1, 1, 1, 1},      {1, 70, 8, 8},   {17, 33, 17, 5},
                            {64, 64, 64, 64},  {65, 31, 8, 17}, {130, 75, 40, 33},
                            {5, 300, 128, 96}, {40, 35, 65, 1}, {33, 97, 16, 128}};

/** Returns the kernels that a call and its gradient launch, by file. */
std::string kernels_of(DType dtype, std::int64_t features) {
  const emulator::LaunchLog log;
  attention_results(drawn_call({}, {3, 5, features, 4}), dtype, kDevice);
  std::string all;
  for (const std::string& name : log.names)
    if (name.rfind("attention", 0) == 0) all += name.substr(0, name.find('.')) + " ";
  return all;
}

}  // namespace

TEST_CASE("attention runs on Tensor Cores where they support it", "[gpu][attention]") {
  const OwnKernels own;
  const std::string tensor = "attention_tensor attention_tensor_backward ",
                    quads = "attention_quads attention_quads_backward attention_quads_backward ",
                    plain = "attention attention_backward ";
  CHECK(kernels_of(f16, 8) == tensor);
  CHECK(kernels_of(bf16, 128) == tensor);
  CHECK(kernels_of(bf16, 129) == plain);
  CHECK(kernels_of(f32, 8) == quads);
  CHECK(kernels_of(f32, 64) == quads);
  CHECK(kernels_of(f32, 65) == plain);
  CHECK(kernels_of(f64, 8) == plain);
  const CapabilityScope turing(75);
  CHECK(kernels_of(f16, 8) == tensor);
  CHECK(kernels_of(bf16, 8) == plain);
  CHECK(kernels_of(f32, 8) == plain);
}

TEST_CASE("attention on Tensor Cores is as accurate as without", "[gpu][attention]") {
  const OwnKernels own;
  manual_seed(1);
  for (const Sizes& s : kSizes) {
    INFO(s.queries << " " << s.keys << " " << s.features << " " << s.values);
    const std::int64_t batch = s.queries * s.keys > 3000 ? 1 : 2;
    Call call = drawn_call({batch}, s);
    check_accuracy(call);
    call.options.is_causal = true;
    check_accuracy(call);
    call.options = {.dropout_p = 0.4};
    call.mask = rand({s.queries, s.keys}) > 0.3;
    check_accuracy(call);
    call.options = {.scale = 0.4};
    call.mask = drawn({batch, s.queries, s.keys}, 2);
    check_accuracy(call);
  }
  for (const int i : {0, 1})
    std::cout << "attention, worst error of " << (i > 0 ? "gradients" : "results")
              << " in half units of the greatest number: " << worst_now[i] << " on Tensor Cores, "
              << worst_before[i] << " without\n";
}

TEST_CASE("attention on Tensor Cores accepts any strides and broadcast operands",
          "[gpu][attention]") {
  const OwnKernels own;
  manual_seed(2);
  Call call = drawn_call({2, 3}, {37, 41, 24, 16});
  call.layout = [](const Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); };
  check_accuracy(call);  // adjacent heads
  call.layout = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  check_accuracy(call);
  call.layout = [](const Tensor& x) { return cat({x, x}, 3).slice(3, 1, x.size(3) + 1); };
  check_accuracy(call);  // rows that are not aligned to 16 bytes
  call = drawn_call({2, 3}, {37, 41, 24, 16});
  call.k = drawn({2, 1, 41, 24});
  call.v = drawn({41, 16});
  call.mask = rand({2, 1, 1, 41}) > 0.2;
  check_accuracy(call);  // one key for all heads
}

TEST_CASE("attention on Tensor Cores of empty operands", "[gpu][attention]") {
  const OwnKernels own;
  for (const Sizes& s :
       {Sizes{3, 0, 4, 4}, Sizes{0, 3, 4, 4}, Sizes{3, 4, 0, 2}, Sizes{3, 4, 2, 0}}) {
    INFO(s.queries << " " << s.keys << " " << s.features << " " << s.values);
    Call call = drawn_call({2}, s);
    call.options.scale = 1;
    check_accuracy(call);
  }
  check_accuracy(drawn_call({0}, {3, 4, 4, 4}));
  Call blind = drawn_call({}, {20, 19, 4, 4});
  blind.mask = rand({20, 1}) > 0.5;  // fully masked rows
  check_accuracy(blind);
}

TEST_CASE("attention on Tensor Cores over scores of wide range and long rows", "[gpu][attention]") {
  const OwnKernels own;
  manual_seed(3);
  for (const double size : {0.01, 1.0, 8.0}) {
    INFO(size);
    Call call = drawn_call({}, {40, 300, 64, 64}, size);
    check_accuracy(call);
    call.v = drawn({300, 64}, 1000);  // elements of small weight have large values
    check_accuracy(call);
  }
}

TEST_CASE("gradients of f16 attention overflow and underflow only in the final rounding",
          "[gpu][attention]") {
  const OwnKernels own;
  manual_seed(4);
  const Sizes s{35, 50, 40, 24};
  Call call = drawn_call({}, s);
  call.v = call.v * 1024, call.g = call.g * 1024, call.k = call.k * 0x1p-10;
  CHECK(amax(abs(attention_results(call, f64, cpu)[1])).item<double>() <
        60000);  // though its terms are far larger
  check_accuracy(call);
  call = drawn_call({}, s);
  call.g = call.g * 0x1p-20, call.k = call.k * 64, call.q = call.q * 0x1p-6;
  check_accuracy(call);
}

TEST_CASE("attention on Tensor Cores and in quads gives the same bits in every schedule",
          "[gpu][attention]") {
  const OwnKernels own;
  manual_seed(7);
  const auto check = [](const Sizes& s, DType dtype) {
    INFO(name(dtype) << " " << s.features);
    Call call = drawn_call({}, s);
    call.options.dropout_p = 0.3;
    std::vector<Tensor> first;
    for (const Schedule schedule : kSchedules) {
      const ScheduleScope scope(schedule);
      const std::vector<Tensor> now = attention_results(call, dtype, kDevice);
      if (first.empty()) first = now;
      for (std::size_t i = 0; i < now.size(); ++i)
        CHECK(now[i].to_vector<double>() == first[i].to_vector<double>());
    }
  };
  check({70, 70, 40, 24}, f16);
  check({70, 70, 128, 100}, f16);
  check({70, 70, 40, 24}, f32);
}
