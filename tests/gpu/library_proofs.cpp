// Libraries that compute wrong numbers: the first call of a kind is compared with Mezzo's own
// kernels, and no wrong number reaches the caller.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "../../cuda/own_kernels.h"
#include "../emulator/counters.h"
#include "../emulator/dnn.h"
#include "../support/log_capture.h"
#include "alike.h"
#include "emulation.h"
#include "unverified.h"

using namespace alike;
using emulator::AttentionFault, emulator::ConvolutionFault, emulator::DnnFault,
    emulator::EpilogueFault;

namespace {

/** A function of some operands whose results and gradients a library computes. */
struct ProofCall {
  std::string name;
  std::vector<Tensor> operands;
  std::function<Tensor(const std::vector<Tensor>&)> f;
  std::int64_t lines;  // of the log, if the library is wrong: one for each kind of call

  std::vector<Tensor> run() const { return results_on(kDevice, operands, f); }
};

using Bits = std::vector<std::vector<double>>;
Bits bits_of(const std::vector<Tensor>& results) {
  Bits bits;
  for (const Tensor& x : results) bits.push_back(x.to_vector<double>());
  return bits;
}

std::int64_t library_calls(const emulator::LaunchLog& log) {
  return std::count_if(log.names.begin(), log.names.end(), [](const std::string& name) {
    return name.rfind("cuDNN", 0) == 0 || name == "cuBLASLt";
  });
}

/** Checks that the results of a call are those of Mezzo's own kernels while `set(true)` makes the
 *  library wrong, that this is logged, and that the library does not serve the kind afterwards. */
void check_caught(const ProofCall& call, const std::function<void(bool)>& set) {
  INFO(call.name);
  Bits own;
  std::int64_t without;
  {
    const gpu::OwnKernels scope;
    const emulator::LaunchLog log;
    own = bits_of(call.run());
    without = library_calls(log);
  }
  CHECK(without == 0);
  {
    const Unverified scope;  // the fault is one, and the switch works
    set(true);
    const Bits wrong = bits_of(call.run());
    set(false);
    CHECK(wrong != own);
  }
  const LogCapture log;
  set(true);
  const Bits got = bits_of(call.run()), again = bits_of(call.run());
  set(false);
  for (const std::string& line : log.lines) UNSCOPED_INFO(line);
  const auto differing =
      std::count_if(log.lines.begin(), log.lines.end(), [](const std::string& line) {
        return line.find(" differs from Mezzo's own kernel; got an error of ") != std::string::npos;
      });
  CHECK(differing == call.lines);
  CHECK(static_cast<std::int64_t>(log.lines.size()) == call.lines);
  const DType dtype = call.operands[0].dtype();
  const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-4 : dtype == f16 ? 4e-3 : 3e-2;
  for (std::size_t i = 0; i < own.size(); ++i) {
    INFO("result " << i);
    double largest = 0;
    for (const double x : own[i]) largest = std::max(largest, std::abs(x));
    for (std::size_t k = 0; k < own[i].size(); ++k) {
      REQUIRE(got[i][k] == Approx(own[i][k]).epsilon(0).margin(tolerance * largest));
      REQUIRE(again[i][k] == got[i][k]);
    }
  }
  const Bits later = bits_of(call.run());
  CHECK(later == got);
  CHECK(static_cast<std::int64_t>(log.lines.size()) == call.lines);
}

std::int64_t unique_size() {
  static std::int64_t size = 30;
  return ++size;
}

Tensor random_operand(const Shape& shape, DType dtype) { return randn(shape).to(dtype); }

ProofCall convolution_call(DType dtype, MemoryFormat format) {
  const std::int64_t n = unique_size();
  return {str("convolution of ", dtype, " ", name(format)),
          {random_operand({3, 4, 6, n}, dtype), random_operand({5, 4, 3, 3}, dtype)},
          [=](const std::vector<Tensor>& x) {
            return conv2d(x[0].contiguous(format), x[1].contiguous(format), {}, {.padding = 1});
          },
          3};
}

ProofCall attention_call(DType dtype, const Tensor& mask, const AttentionOptions& options,
                         std::int64_t lines, std::int64_t keys = 24) {
  const std::int64_t queries = unique_size();
  const auto operand = [&](std::int64_t rows) { return random_operand({2, 3, rows, 16}, dtype); };
  return {str("attention of ", dtype),
          {operand(queries), operand(keys), operand(keys)},
          [=](const std::vector<Tensor>& x) {
            AttentionOptions all = options;
            if (mask.defined()) all.mask = mask.to(x[0].device());
            return scaled_dot_product_attention(x[0], x[1], x[2], all);
          },
          lines};
}

Tensor hidden(const Shape& shape) {
  Tensor mask = ones(shape, {.dtype = boolean});
  mask.slice(-1, 5, 20).fill_(false);
  return mask;
}

ProofCall chain(DType dtype, MlpActivation activation, std::int64_t lines) {
  const std::int64_t n = unique_size();
  return {
      str("mlp of ", dtype),
      {random_operand({n, 24}, dtype), random_operand({32, 24}, dtype), random_operand({32}, dtype),
       random_operand({16, 32}, dtype), random_operand({16}, dtype)},
      [=](const std::vector<Tensor>& x) {
        return mlp(x[0], {x[1], x[3]}, {x[2], x[4]}, {.activation = activation});
      },
      lines};
}

ProofCall recurrent(DType dtype, std::int64_t lines) {
  const std::int64_t n = unique_size();
  const auto weight = [&](const Shape& shape) { return (randn(shape) * 0.3).to(dtype); };
  return {str("lstm of ", dtype),
          {random_operand({4, n, 5}, dtype), weight({24, 5}), weight({24, 6}), weight({24}),
           weight({24})},
          [](const std::vector<Tensor>& x) {
            const std::vector<RecurrentWeights> weights{{x[1], x[2], x[3], x[4]}};
            return lstm(x[0], {}, weights).output;
          },
          lines};
}

}  // namespace

TEST_CASE("wrong convolutions are caught", "[gpu][proof]") {
  manual_seed(41);
  for (const ConvolutionFault fault :
       {ConvolutionFault::wrong_factor, ConvolutionFault::last_entry})
    for (const DType dtype : {f32, f16, bf16})
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
        check_caught(convolution_call(dtype, format), [&](bool on) {
          emulator::set_convolution_fault(on ? fault : ConvolutionFault::none);
        });
  check_caught(convolution_call(f64, MemoryFormat::contiguous), [](bool on) {
    emulator::set_convolution_fault(on ? ConvolutionFault::garbage_f64 : ConvolutionFault::none);
  });
}

TEST_CASE("wrong attention is caught", "[gpu][proof][attention]") {
  manual_seed(42);
  const auto with = [](AttentionFault fault) {
    return [=](bool on) { emulator::set_attention_fault(on ? fault : AttentionFault::none); };
  };
  for (const DType dtype : {f16, bf16}) {
    for (const bool is_causal : {false, true})
      check_caught(attention_call(dtype, {}, {.dropout_p = 0.1, .is_causal = is_causal}, 1),
                   with(AttentionFault::wrong_offsets));
    check_caught(attention_call(dtype, {}, {.is_causal = true}, 2, 64),
                 with(AttentionFault::sees_one_more));
    // Over entries, heads, queries. For gradients Mezzo broadcasts over queries itself.
    for (const Shape& shape : {Shape{1, 3, 1, 24}, Shape{2, 1, 1, 24}})
      check_caught(attention_call(dtype, hidden(shape), {}, 2), with(AttentionFault::no_broadcast));
    check_caught(attention_call(dtype, hidden({2, 3, 1, 24}), {}, 1),
                 with(AttentionFault::no_broadcast));
  }
}

TEST_CASE("wrong biases and fused functions of products are caught", "[gpu][proof]") {
  manual_seed(43);
  const auto with = [](EpilogueFault fault) {
    return [=](bool on) { emulator::set_epilogue_fault(on ? fault : EpilogueFault::none); };
  };
  for (const DType dtype : {f32, f16, bf16}) {
    // Without its relu, the first product has a wrong bias, too.
    check_caught(chain(dtype, MlpActivation::relu, 3), with(EpilogueFault::wrong_bias));
    if (dtype != bf16)  // whose sums Mezzo computes
      check_caught(chain(dtype, MlpActivation::relu, 2), with(EpilogueFault::short_sums));
  }
  for (const DType dtype : {f16, bf16})
    check_caught(chain(dtype, MlpActivation::gelu_tanh, 1), with(EpilogueFault::wrong_gelu));
}

TEST_CASE("wrong recurrent layers are caught", "[gpu][proof][recurrent]") {
  manual_seed(44);
  const AnyBits any;
  const emulation::ResidentScope no_cooperative_launches{0};
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const DnnFault fault : {DnnFault::wrong_results, DnnFault::wrong_gradients})
      check_caught(recurrent(dtype, 1),
                   [&](bool on) { emulator::set_dnn_fault(on ? fault : DnnFault::none); });
}

TEST_CASE("a library that computes right numbers is used, also for unusual operands",
          "[gpu][proof]") {
  manual_seed(45);
  const LogCapture log;
  const auto is_used = [](const ProofCall& call) {
    call.run();
    const emulator::LaunchLog launches;
    call.run();
    return library_calls(launches) > 0;
  };
  for (const DType dtype : {f32, f16, bf16}) {
    CHECK(is_used(convolution_call(dtype, MemoryFormat::contiguous)));
    CHECK(is_used(chain(dtype, MlpActivation::relu, 0)));
  }
  CHECK(is_used(chain(f16, MlpActivation::gelu_tanh, 0)));
  // Equal tokens: the gradients of q and k are roundings of zero.
  ProofCall equal = attention_call(f16, {}, {.dropout_p = 0.25}, 0);
  equal.operands[1] = equal.operands[1].slice(2, 0, 1).expand({2, 3, 24, 16}).contiguous();
  CHECK(is_used(equal));
  // Overflows: the first results tell nothing, the next ones are compared.
  ProofCall overflowing = convolution_call(f16, MemoryFormat::contiguous);
  const Tensor finite = overflowing.operands[0];
  overflowing.operands[0] = finite * 60000;
  overflowing.run();
  overflowing.operands[0] = finite;
  CHECK(is_used(overflowing));
  // Zeros tell nothing, but do not hold the library up either.
  ProofCall nothing = convolution_call(f32, MemoryFormat::contiguous);
  for (Tensor& x : nothing.operands) x = zeros_like(x);
  CHECK(is_used(nothing));
  for (const std::string& line : log.lines) UNSCOPED_INFO(line);
  CHECK(log.lines.empty());
}

TEST_CASE("in a capture a convolution that was not compared runs on Mezzo's own kernels",
          "[gpu][proof][graph]") {
  manual_seed(46);
  for (const bool known : {true, false}) {
    const std::int64_t n = unique_size();
    const Tensor x = random_operand({2, 3, 5, n}, f32).to(kDevice),
                 w = random_operand({4, 3, 3, 3}, f32).to(kDevice);
    const NoGrad no_grad;
    if (known) (void)conv2d(x, w);
    Tensor captured;
    gpu::Graph graph;
    const emulator::LaunchLog log;
    graph.capture(kDevice, [&] { captured = conv2d(x, w); });
    graph.replay();
    CHECK(library_calls(log) == (known ? 1 : 0));
    CHECK(distance(captured.to(cpu), conv2d(x.to(cpu), w.to(cpu))) < 1e-4);
  }
}

TEST_CASE("the gradient of relu within mlp is 0 where its argument is 0, and passes nan",
          "[gpu][proof]") {
  for (const DType dtype : {f32, f16, bf16})
    for (const std::int64_t width : {32, 37}) {
      INFO(name(dtype) << " " << width);
      manual_seed(47);
      // Row 0 is padding: with a bias of 0 all arguments of relu are 0. Integers make more of them.
      Tensor x = randint(-1, 2, {6, 8}).to(dtype);
      x.select(0, 0).fill_(0);
      x.select(0, 3).fill_(NAN);
      const auto whole = [&](const Shape& shape) { return randint(-1, 2, shape).to(dtype); };
      const std::vector<Tensor> operands{x, whole({width, 8}), zeros({width}, {.dtype = dtype}),
                                         whole({3, width}), whole({3})};
      const auto f = [](const std::vector<Tensor>& t) {
        return mlp(t[0], {t[1], t[3]}, {t[2], t[4]});
      };
      const Bits here = bits_of(results_on(cpu, operands, f));
      for (int i = 0; i < 2; ++i) {
        const std::vector<Tensor> got = results_on(kDevice, operands, f);
        for (std::size_t r = 0; r < here.size(); ++r) {
          const std::vector<double> there = got[r].to_vector<double>();
          for (std::size_t k = 0; k < there.size(); ++k) {
            const bool same = there[k] == Approx(here[r][k]).epsilon(1e-2) ||
                              (std::isnan(there[k]) && std::isnan(here[r][k]));
            REQUIRE(same);
          }
        }
        CHECK(got[0].select(0, 0).to_vector<double>() == std::vector<double>(8, 0));
      }
    }
}

TEST_CASE("products with an empty dimension never reach cuBLASLt", "[gpu][product]") {
  const LogCapture log;
  const emulator::LaunchLog launches;
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{0, 4, 5}, {3, 0, 5}, {3, 4, 0}}) {
      INFO(name(dtype) << " " << m << " " << k << " " << n);
      const auto make = [&](const Shape& shape) {
        return ones(shape, {.dtype = dtype, .device = kDevice}).requires_grad_();
      };
      const Tensor x = make({m, k}), w = make({n, k}), bias = make({n}), v = make({2, n}),
                   b = make({2});
      for (const Tensor& y : {matmul(x, w.t()), linear(x, w, bias),
                              bmm(x.unsqueeze(0), w.t().unsqueeze(0)), mlp(x, {w, v}, {bias, b})}) {
        const std::vector<Tensor> leaves{x, w, bias, v, b};
        const Tensor total = sum(y);
        for (const Tensor& gradient : grad(TensorList(total), leaves, {.allow_unused = true}))
          if (gradient.defined()) CHECK(all(isfinite(gradient)).item<bool>());
      }
      if (k == 0)
        CHECK(linear(x, w, bias).to_vector<double>() ==
              std::vector<double>(static_cast<std::size_t>(m * n), 1));
    }
  CHECK(log.lines.empty());
}

TEST_CASE("gradients of attention that cuDNN gets wrong are left to Mezzo's own kernels",
          "[gpu][attention][dnn]") {
  manual_seed(48);
  const auto gradients_by_library = [](std::int64_t keys, const Tensor& mask) {
    const ProofCall call = attention_call(f16, mask, {}, 0, keys);
    call.run();
    const emulator::LaunchLog log;
    call.run();
    return std::count(log.names.begin(), log.names.end(), "cuDNN attention") == 2;
  };
  for (const std::int64_t keys : {64, 192}) {
    CHECK_FALSE(gradients_by_library(keys, ones({keys}, {.dtype = boolean})));
    CHECK(gradients_by_library(keys, {}));
  }
  for (const std::int64_t keys : {63, 65, 128})
    CHECK(gradients_by_library(keys, ones({keys}, {.dtype = boolean})));
}
