// Attention on any device, by cuDNN where it supports the call and by our own kernels: results
// agree with f64.
#include "attention.h"

#include "../support/catch.h"
#include "../support/device.h"
#include "need_device.h"

using namespace attention;

namespace {

/** Checks that results and gradients agree with f64 within 16-bit precision. */
void check_half_numbers(const Call& call) {
  const std::vector<Tensor> exact = attention_results(call, f64, cpu);
  for (const DType dtype : {f16, bf16}) {
    const std::vector<Tensor> got = attention_results(call, dtype, kDevice);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      INFO(name(dtype) << " result " << i);
      CHECK(error(got[i], exact[i], dtype) <= 3);
    }
  }
}

/** Returns the sizes of the batch for operands of these sizes: tiles of large ones are the same in
 *  every head. */
Shape batch_for(const Sizes& s) { return s.queries > 60 ? Shape{1, 2} : Shape{2, 3}; }

}  // namespace

TEST_CASE("attention agrees with f64, with and without cuDNN", "[gpu][attention]") {
  NEED_DEVICE();
  manual_seed(31);
  int turn = 0;
  for (const bool by_library : {true, false})
    for (const bool is_causal : {false, true})
      for (const Sizes& s : {Sizes{10, 12, 8, 16}, Sizes{64, 64, 64, 64}, Sizes{130, 75, 40, 32},
                             Sizes{33, 97, 16, 128}, Sizes{17, 33, 17, 5}}) {
        if (testing::is_slow(kDevice) && turn++ % 2 != 0) continue;  // each size both ways
        INFO(by_library << " " << is_causal << " " << s.queries << " " << s.keys);
        enable_cudnn_sdp(by_library);
        Call call = drawn_call(batch_for(s), s);
        call.options.is_causal = is_causal;
        check_half_numbers(call);
        call.layout = third_of_rows;
        check_half_numbers(call);
      }
  enable_cudnn_sdp(true);
}

TEST_CASE("attention of f32 agrees with f64", "[gpu][attention]") {
  NEED_DEVICE();
  manual_seed(35);
  const auto check = [](const Call& call) {
    const std::vector<Tensor> exact = attention_results(call, f64, cpu),
                              got = attention_results(call, f32, kDevice);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      INFO("result " << i);
      CHECK(error(got[i], exact[i], f32) <= 64);
    }
  };
  const auto aside = [](const Tensor& x) {  // rows that are not aligned to 16 bytes
    return cat({x, x}, 3).slice(3, 1, x.size(3) + 1);
  };
  const auto across = [](const Tensor& x) {  // contiguous columns
    return x.transpose(2, 3).contiguous().transpose(2, 3);
  };
  for (const Sizes& s :
       {Sizes{1, 70, 8, 8}, Sizes{64, 70, 64, 64}, Sizes{70, 65, 20, 32}, Sizes{65, 31, 17, 5},
        Sizes{20, 20, 80, 20}, Sizes{3, 0, 4, 4}, Sizes{3, 4, 0, 2}, Sizes{3, 4, 2, 0}}) {
    INFO(s.queries << " " << s.keys << " " << s.features << " " << s.values);
    Call call = drawn_call({1, 2}, s);
    if (s.features == 0) call.options.scale = 1;
    check(call);
    call.options.is_causal = true;
    check(call);
    if (s.keys * s.features * s.values == 0) continue;
    call.layout = third_of_rows;
    check(call);
    call.options = {.scale = -0.4};
    call.layout = aside;
    call.mask = drawn({2, s.queries, s.keys}, 2);
    check(call);
    call.options = {.dropout_p = 0.4};
    call.layout = across;
    call.mask = rand({s.queries, s.keys}) > 0.3;
    check(call);
  }
  Call call = drawn_call({2, 3}, {37, 41, 24, 16});
  call.k = drawn({2, 1, 41, 24});  // shared by all heads
  call.v = drawn({41, 16});
  call.mask = rand({37, 1}) > 0.5;  // rows without visible keys
  check(call);
  check(drawn_call({0, 2}, {3, 4, 4, 4}));
  call = drawn_call({2, 4}, {9, 70, 16, 8});
  call.k = drawn({2, 2, 70, 16});
  call.v = drawn({2, 2, 70, 8});
  call.options = {.dropout_p = 0.2, .is_causal = true, .enable_gqa = true};
  check(call);
}

TEST_CASE("attention accepts masks, dropout, shared keys and empty operands", "[gpu][attention]") {
  NEED_DEVICE();
  manual_seed(32);
  Call call = drawn_call({2, 3}, {37, 41, 24, 16});
  call.mask = rand({37, 41}) > 0.3;
  call.options.dropout_p = 0.4;
  check_half_numbers(call);
  call = drawn_call({2, 3}, {37, 41, 24, 16});
  call.k = drawn({2, 1, 41, 24});
  call.v = drawn({2, 1, 41, 16});
  check_half_numbers(call);
  for (const Sizes& s : {Sizes{3, 0, 4, 4}, Sizes{0, 3, 4, 4}, Sizes{3, 4, 2, 0}})
    check_half_numbers(drawn_call({2}, s));
}

TEST_CASE("attention by cuDNN agrees with our own kernels and repeats its bits",
          "[gpu][attention]") {
  NEED_DEVICE();
  manual_seed(33);
  int turn = 0;
  for (const DType dtype : {f16, bf16})
    for (const bool is_causal : {false, true})
      for (const double dropout_p : {0.0, 0.25})
        for (const bool masked : {false, true})
          for (const Sizes& s :
               {Sizes{12, 12, 16, 8}, Sizes{1, 40, 64, 64}, Sizes{66, 130, 128, 64}}) {
            INFO(name(dtype) << " " << is_causal << " " << dropout_p << " " << masked << " "
                             << s.queries);
            // A mask excludes is_causal, and the gradient of a query that sees one key is 0.
            if (is_causal && (masked || s.queries == 1)) continue;
            if (testing::is_slow(kDevice) && turn++ % 2 != 0) continue;
            Call call = drawn_call(batch_for(s), s);
            call.options = {.dropout_p = dropout_p, .is_causal = is_causal};
            if (masked) call.mask = rand({s.queries, s.keys}) > 0.3;
            CHECK(agrees_with_own_kernels(call, dtype));
            CHECK(repeats(call, dtype));
          }
}

TEST_CASE("attention by cuDNN passes nan on", "[gpu][attention]") {
  NEED_DEVICE();
  manual_seed(34);
  for (const DType dtype : {f16, bf16})
    for (const int operand : {0, 1, 2, 3}) {
      Call call = drawn_call({}, {35, 50, 40, 24});
      Tensor& x = operand == 0 ? call.q : operand == 1 ? call.k : operand == 2 ? call.v : call.g;
      x.select(0, 20).fill_(NAN);
      INFO(name(dtype) << " operand " << operand);
      CHECK(alike(attention_results(call, dtype, kDevice), attention_results(call, dtype, cpu)));
    }
}

TEST_CASE("non-finite values propagate as on the CPU", "[gpu][attention]") {
  NEED_DEVICE();
  const OwnKernels own;
  manual_seed(6);
  const Sizes s{35, 50, 40, 24};
  for (const double value : {double{INFINITY}, double{NAN}})
    for (const int operand : {0, 1, 2, 3}) {
      Call call = drawn_call({}, s);
      Tensor& x = operand == 0 ? call.q : operand == 1 ? call.k : operand == 2 ? call.v : call.g;
      x.select(0, 20).fill_(value);
      INFO(value << " in operand " << operand);
      for (const DType dtype : {f16, bf16, f32})
        CHECK(alike(attention_results(call, dtype, kDevice), attention_results(call, dtype, cpu)));
    }
  Call call = drawn_call({}, s);
  call.g = call.g * 8192,
  call.v = call.v * 8192;  // gradients that overflow f16, which loss scaling must detect
  const std::vector<Tensor> there = attention_results(call, f16, kDevice),
                            here = attention_results(call, f16, cpu);
  CHECK(!all(isfinite(here[1])).item<bool>());
  CHECK(alike(there, here));
}
