// Attention by cuDNN: which calls it supports, that its results agree with the CPU, and that one
// which loses NaN or fails is not used.
#include <mezzo.h>

#include <algorithm>
#include <string>

#include "../../tensor/device/capture.h"
#include "../emulator/counters.h"
#include "../emulator/dnn.h"
#include "../support/catch.h"
#include "../support/log_capture.h"
#include "attention_library.h"
#include "cost.h"
#include "emulation.h"

using namespace attention;
using namespace emulation;

namespace {

using emulator::AttentionFault;

Tensor heads_beside_each_other(const Tensor& x) {
  return x.transpose(-3, -2).contiguous().transpose(-3, -2);
}

}  // namespace

TEST_CASE("cuDNN computes attention and its gradients in any row layout that it supports",
          "[gpu][attention][dnn]") {
  manual_seed(11);
  for (const DType dtype : {f16, bf16})
    for (const bool is_causal : {false, true})
      for (const Sizes& s : {Sizes{10, 12, 8, 16}, Sizes{20, 7, 24, 8}, Sizes{2, 2, 128, 128}}) {
        INFO(name(dtype) << " " << is_causal << " " << s.queries << " " << s.keys);
        Call call = drawn_call({2, 3}, s);
        call.options.is_causal = is_causal;
        CHECK(served_by(call, dtype) == kBoth);
        check_numbers(call, dtype);
        for (const auto& layout : {heads_beside_each_other, third_of_rows}) {
          call.layout = layout;
          CHECK(served_by(call, dtype) == kBoth);
          check_numbers(call, dtype);
        }
      }
  for (const Shape& batch : {Shape{}, Shape{4}, Shape{2, 1, 3}, Shape{2, 2, 3}}) {
    INFO(str(batch));
    Call call = drawn_call(batch, {9, 11, 16, 8});
    call.options = {.is_causal = true, .scale = 0.3};
    CHECK(served_by(call) == kBoth);
    check_numbers(call, f16);
  }
}

TEST_CASE("cuDNN computes attention with shared keys; our own kernels compute its gradients",
          "[gpu][attention][dnn]") {
  manual_seed(12);
  const auto sharing = [](const Shape& keys, const Shape& batch) {
    Call call = drawn_call(batch, {9, 11, 16, 8});
    const Call shared = drawn_call(keys, {9, 11, 16, 8});
    call.k = shared.k, call.v = shared.v;
    return call;
  };
  for (const auto& [keys, batch] :
       {std::pair{Shape{2, 1}, Shape{2, 3}}, std::pair{Shape{}, Shape{3}},
        std::pair{Shape{2, 2, 1}, Shape{2, 2, 3}}}) {
    INFO(str(keys));
    const Call call = sharing(keys, batch);
    CHECK(served_by(call).rfind(kForward, 0) == 0);
    check_numbers(call, f16);
    check_numbers(call, bf16);
  }
  // Separate heads but one batch for all; and keys shared differently from values.
  CHECK(is_own(served_by(sharing({1, 3}, {2, 3}))));
  Call uneven = sharing({2, 1}, {2, 3});
  uneven.v = drawn({2, 3, 11, 8});
  CHECK(is_own(served_by(uneven)));
}

TEST_CASE("gradients for which cuDNN lacks memory are computed in chunks of the batch",
          "[gpu][attention][dnn]") {
  manual_seed(18);
  constexpr std::int64_t kEntry = 2 * 3 * 12 * 12;  // bytes of the score gradients of a batch entry
  const Call call = drawn_call({5, 3}, {12, 12, 16, 8});
  Call across = call;
  across.layout = heads_beside_each_other;
  std::vector<Tensor> whole;
  {
    const ScoreBytes limit(5 * kEntry);
    CHECK(served_by(call) == kBoth);
    whole = attention_results(call, f16, kDevice);
  }
  for (const auto& [entries, served] :
       {std::pair{4, kBoth + "library "},             // chunks of 3 and 2
        std::pair{3, kBoth + "library "},             // chunks of 3 and 2
        std::pair{2, kBoth + "library library "}}) {  // chunks of 2, 2 and 1
    INFO(entries);
    const ScoreBytes limit(entries * kEntry);
    CHECK(served_by(call) == served);
    CHECK(served_by(across) == served);
    check_numbers(across, f16);
    const std::vector<Tensor> parts = attention_results(call, f16, kDevice);
    for (std::size_t i = 0; i < whole.size(); ++i)
      CHECK(parts[i].to_vector<double>() == whole[i].to_vector<double>());
  }
  {
    const ScoreBytes limit(kEntry - 1);  // less than one entry; for a call without a plan
    const Call other = drawn_call({5, 3}, {12, 12, 24, 8});
    CHECK(served_by(other).rfind(kForward, 0) == 0);
    check_numbers(other, f16);
  }
  // A second chunk whose logarithms would not be aligned to 16 bytes.
  const ScoreBytes limit(2 * 3 * 5 * 12);
  const Call odd = drawn_call({3, 3}, {5, 12, 16, 8});
  CHECK(served_by(odd).rfind(kForward, 0) == 0);
  check_numbers(odd, f16);
}

TEST_CASE("calls that cuDNN does not support run on our own kernels", "[gpu][attention][dnn]") {
  manual_seed(13);
  const Sizes s{10, 12, 16, 8};
  const auto changed = [&](const std::function<void(Call&)>& change) {
    Call call = drawn_call({2, 3}, s);
    change(call);
    return served_by(call);
  };
  CHECK(changed([](Call&) {}) == kBoth);
  // The gradient of a mask, and dropout of everything.
  CHECK(changed([](Call& c) { c.mask = drawn({10, 12}); }).rfind(kForward, 0) == 0);
  CHECK(is_own(changed([](Call& c) { c.options.dropout_p = 1; })));
  CHECK(is_own(served_by(drawn_call({2}, s), f32)));
  for (const Sizes& other :
       {Sizes{10, 12, 12, 8}, Sizes{10, 12, 16, 7}, Sizes{10, 12, 136, 8}, Sizes{10, 1, 16, 8}}) {
    INFO(other.queries << " " << other.keys << " " << other.features << " " << other.values);
    CHECK(is_own(served_by(drawn_call({2}, other))));
    check_numbers(drawn_call({2}, other), f16);
  }
  for (const Sizes& nothing : {Sizes{0, 12, 16, 8}, Sizes{10, 0, 16, 8}, Sizes{10, 12, 16, 0}})
    CHECK(served_by(drawn_call({2}, nothing)).find("library") == std::string::npos);
  CHECK(served_by(drawn_call({0}, s)).empty());
  // Rows that are not aligned to 16 bytes, and rows with non-adjacent elements.
  CHECK(is_own(changed([](Call& c) {
    c.layout = [](const Tensor& x) { return cat({x, x}, 3).slice(3, 1, x.size(3) + 1); };
  })));
  CHECK(is_own(changed([](Call& c) {
    c.layout = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  })));
  {
    const OwnKernels own;
    CHECK(is_own(changed([](Call&) {})));
  }
  {
    const CapabilityScope turing(75);
    CHECK(is_own(changed([](Call&) {})));
  }
  {
    const CapabilityScope blackwell(100);
    CHECK(changed([](Call&) {}).rfind(kForward, 0) == 0);
  }
  emulator::set_has_dnn(false);
  CHECK(is_own(changed([](Call&) {})));
  emulator::set_has_dnn(true);
  CHECK(changed([](Call&) {}) == kBoth);
}

TEST_CASE("a library that loses nan or fails is reported once and not used again",
          "[gpu][attention][dnn]") {
  manual_seed(14);
  std::int64_t queries = 21;  // a size without a plan
  for (const AttentionFault fault : {AttentionFault::loses_nan, AttentionFault::fails}) {
    INFO(static_cast<int>(fault));
    Call call = drawn_call({2}, {queries++, 26, 32, 40});
    call.options.is_causal = true;
    std::vector<Tensor> own;
    {
      const OwnKernels scope;
      own = attention_results(call, bf16, kDevice);
    }
    const LogCapture log;
    emulator::set_attention_fault(fault);
    const std::vector<Tensor> got = attention_results(call, bf16, kDevice);
    emulator::set_attention_fault(AttentionFault::none);
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(got[i].to_vector<double>() == own[i].to_vector<double>());
    REQUIRE(log.lines.size() == 2);
    const bool fails = fault == AttentionFault::fails;
    const std::string what = fails ? "failed (cudnnBackendExecute: " : "loses nan";
    CHECK(log.lines[0].find("cuDNN: attention of bf16 [1,2,") == 0);
    CHECK(log.lines[1].find("cuDNN: gradients of attention of bf16 [1,2,") == 0);
    for (const std::string& line : log.lines) CHECK(line.find(what) != std::string::npos);
    CHECK(is_own(served_by(call, bf16)));
    CHECK(log.lines.size() == 2);
  }
}

TEST_CASE("the comparisons with our own kernels find wrong attention", "[gpu][attention][dnn]") {
  manual_seed(14);
  Call call = drawn_call({2}, {25, 26, 32, 24});
  call.options.is_causal = true;
  CHECK(agrees_with_own_kernels(call, bf16));
  CHECK(repeats(call, bf16));
  emulator::set_attention_fault(AttentionFault::sees_one_more);
  CHECK_FALSE(agrees_with_own_kernels(call, bf16));
  emulator::set_attention_fault(AttentionFault::varies);
  CHECK_FALSE(repeats(call, bf16));
  emulator::set_attention_fault(AttentionFault::none);
}

TEST_CASE("attention by cuDNN propagates nan", "[gpu][attention][dnn]") {
  manual_seed(15);
  for (const double value : {double{INFINITY}, double{NAN}})
    for (const int operand : {0, 1, 2, 3}) {
      Call call = drawn_call({}, {35, 50, 40, 24});
      REQUIRE(served_by(call) == kBoth);
      Tensor& x = operand == 0 ? call.q : operand == 1 ? call.k : operand == 2 ? call.v : call.g;
      x.select(0, 20).fill_(value);
      INFO(value << " in operand " << operand);
      CHECK(alike(attention_results(call, f16, kDevice), attention_results(call, f16, cpu)));
      CHECK(alike(attention_results(call, bf16, kDevice), attention_results(call, bf16, cpu)));
    }
}

namespace {

/** Returns a step whose only work is attention of 16-bit halves, optionally of other sizes while it
 *  is captured. */
gpu::CapturedStep::Function attention_step(std::int64_t captured_queries) {
  return [captured_queries](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const bool shorter = captured_queries > 0 && Capture::current();
    const Tensor q =
        (shorter ? in[0].slice(1, 0, captured_queries) : in[0]).detach().requires_grad_();
    const Tensor y = scaled_dot_product_attention(q, in[1], in[1], {.is_causal = true});
    return {y.detach(), grad(TensorList(sum(y)), TensorList(q))[0]};
  };
}

}  // namespace

TEST_CASE("a captured step has the bits of an eager one, using plans checked before",
          "[gpu][attention][dnn][graph]") {
  manual_seed(16);
  const std::vector<Tensor> in{drawn({2, 18, 16}).to(f16).to(kDevice),
                               drawn({2, 19, 16}).to(f16).to(kDevice)};
  const auto step = attention_step(0);
  const std::vector<Tensor> eager = step(in);
  gpu::CapturedStep captured(step, {kDevice});
  for (int i = 0; i < 4; ++i) {
    const emulator::LaunchLog log;
    const std::vector<Tensor> now = captured(in);
    for (std::size_t r = 0; r < eager.size(); ++r)
      CHECK(now[r].to_vector<double>() == eager[r].to_vector<double>());
    CHECK(std::count(log.names.begin(), log.names.end(), "cuDNN attention") == 2);
  }
  gpu::CapturedStep unchecked(attention_step(13), {kDevice});
  for (int i = 0; i < 4; ++i) {
    const emulator::LaunchLog log;
    unchecked(in);
    const auto library = std::count(log.names.begin(), log.names.end(), "cuDNN attention");
    CHECK(library == (i == 0 ? 2 : 0));
  }
}

TEST_CASE("changing lengths do not each get a plan", "[gpu][attention][dnn]") {
  manual_seed(17);
  const auto is_served = [](std::int64_t keys) {
    return served_by(drawn_call({}, {2, keys, 56, 48})) == kBoth;
  };
  int served = 0;
  for (std::int64_t keys = 2; keys < 140; ++keys) served += is_served(keys) ? 1 : 0;
  CHECK(served == 128);
  CHECK(is_served(2));  // the first plan is kept
  CHECK_FALSE(is_served(139));
}

namespace {

/** Returns causal self-attention of a projection by its parts. */
Tensor by_parts(const Tensor& qkv, std::int64_t heads, double dropout_p) {
  const Tensor all = qkv.unflatten(-1, {3, heads, qkv.size(-1) / (3 * heads)});
  const auto part = [&](std::int64_t i) { return all.select(2, i).transpose(1, 2); };
  return scaled_dot_product_attention(part(0), part(1), part(2),
                                      {.dropout_p = dropout_p, .is_causal = true})
      .transpose(1, 2)
      .flatten(2);
}

/** Returns self-attention of a projection and its gradient. */
std::vector<Tensor> self_attention(const Tensor& qkv, const Tensor& g, double dropout_p,
                                   bool in_one) {
  manual_seed(5);
  const Tensor leaf = qkv.detach().requires_grad_();
  const Tensor y = in_one ? nn::causal_self_attention(leaf, 3, {.dropout_p = dropout_p})
                          : by_parts(leaf, 3, dropout_p);
  return {y.to(cpu), grad(std::span(&y, 1), {leaf}, {}, std::span(&g, 1))[0].to(cpu)};
}

}  // namespace

TEST_CASE("self-attention reads and writes one projection, with the bits of its parts",
          "[gpu][attention][dnn]") {
  manual_seed(21);
  for (const DType dtype : {f16, bf16, f32, f64})
    for (const bool library : {true, false})
      for (const double dropout_p : {0.0, 0.25})
        for (const std::int64_t features : {16, 20}) {
          INFO(name(dtype) << " " << library << " " << dropout_p << " " << features);
          emulator::set_has_dnn(library);
          const Tensor qkv = randn({2, 12, 9 * features}).to(dtype).to(kDevice),
                       g = randn({2, 12, 3 * features}).to(dtype).to(kDevice);
          const std::vector<Tensor> got = self_attention(qkv, g, dropout_p, true),
                                    expected = self_attention(qkv, g, dropout_p, false);
          for (std::size_t i = 0; i < got.size(); ++i)
            CHECK(got[i].to_vector<double>() == expected[i].to_vector<double>());
        }
  emulator::set_has_dnn(true);
}

TEST_CASE("self-attention by cuDNN copies nothing", "[gpu][attention][dnn]") {
  const Tensor qkv = randn({2, 12, 144}).to(f16).to(kDevice),
               g = randn({2, 12, 48}).to(f16).to(kDevice);
  self_attention(qkv, g, 0, true);  // checks the library
  const emulator::LaunchLog log;
  self_attention(qkv, g, 0, true);
  CHECK(log.names == std::vector<std::string>{"cuDNN attention", "cuDNN attention"});
}

TEST_CASE("self-attention under casts has the bits of its parts, without their copies",
          "[gpu][attention][dnn]") {
  manual_seed(23);
  for (const DType low : {f16, bf16})
    for (const DType dtype : {f16, bf16, f32})
      for (const double dropout_p : {0.0, 0.25}) {
        INFO(name(low) << " " << name(dtype) << " " << dropout_p);
        const amp::autocast casts({.dtype = low});
        const Tensor qkv = randn({2, 12, 144}).to(dtype).to(kDevice),
                     g = randn({2, 12, 48}).to(low).to(kDevice);
        const std::vector<Tensor> got = self_attention(qkv, g, dropout_p, true),
                                  expected = self_attention(qkv, g, dropout_p, false);
        CHECK(got[0].dtype() == low);
        for (std::size_t i = 0; i < got.size(); ++i) {
          CHECK(got[i].dtype() == expected[i].dtype());
          CHECK(got[i].to_vector<double>() == expected[i].to_vector<double>());
        }
        if (dtype != low || dropout_p > 0) continue;
        const emulator::LaunchLog log;
        self_attention(qkv, g, 0, true);
        CHECK(log.names == std::vector<std::string>{"cuDNN attention", "cuDNN attention"});
      }
}

TEST_CASE("self-attention keeps its parts where a precision tag is overridden",
          "[gpu][attention][dnn]") {
  const amp::autocast casts({.dtype = bf16});
  const amp::policy_override wide{{"scaled_dot_product_attention", Precision::f32}};
  const Tensor qkv = randn({2, 12, 144}).to(bf16).to(kDevice);
  CHECK(nn::causal_self_attention(qkv, 3).dtype() == f32);
}

TEST_CASE("self-attention by our own kernels copies nothing", "[gpu][attention]") {
  for (const DType dtype : {f32, f16, f64}) {
    enable_cudnn_sdp(false);
    const Tensor qkv = randn({2, 12, 60}).to(dtype).to(kDevice),
                 g = randn({2, 12, 20}).to(dtype).to(kDevice);
    const emulator::Counters cost = cost_of([&] {
      const Tensor leaf = qkv.detach().requires_grad_();
      const Tensor y = nn::causal_self_attention(leaf, 5);
      grad(std::span(&y, 1), {leaf}, {}, std::span(&g, 1));
    });
    CHECK(cost.launches == 3);  // forward; sums of g y, gradients
    enable_cudnn_sdp(true);
  }
}

TEST_CASE("self-attention of a projection can be differentiated twice", "[gpu][attention]") {
  manual_seed(22);
  const Tensor qkv = randn({1, 4, 24}).to(f64);
  const auto second = [&](const Tensor& leaf) {
    const Tensor y = nn::causal_self_attention(leaf, 2);
    const Tensor first = grad({sum(y * y)}, {leaf}, {.create_graph = true})[0];
    return grad({sum(first * first)}, {leaf})[0].to(cpu).to_vector<double>();
  };
  const std::vector<double> here = second(qkv.detach().requires_grad_()),
                            there = second(qkv.to(kDevice).requires_grad_());
  for (std::size_t i = 0; i < here.size(); ++i) CHECK(there[i] == Approx(here[i]).margin(1e-9));
}
