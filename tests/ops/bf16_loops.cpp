// Elementwise loops and column sums that read bf16 operands themselves, and the shorter formulas
// for blocks of moderate values: both have the bits of the ordinary path.
#include <mezzo.h>

#include <limits>

#include "../support/same_bits.h"

using namespace mezzo;
using testing::same_bits;

namespace {

struct LoopFunction {
  const char* name;
  Tensor (*apply)(const Tensor&);
};
constexpr LoopFunction kLoopFunctions[] = {{"exp", [](const Tensor& x) { return exp(x); }},
                                           {"log", [](const Tensor& x) { return log(x); }},
                                           {"sqrt", [](const Tensor& x) { return sqrt(x); }},
                                           {"tanh", [](const Tensor& x) { return tanh(x); }},
                                           {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
                                           {"silu", [](const Tensor& x) { return silu(x); }},
                                           {"gelu", [](const Tensor& x) { return gelu(x); }},
                                           {"relu", [](const Tensor& x) { return relu(x); }}};
/** Those whose gradient is a formula of x, not of the rounded result. */
constexpr LoopFunction kOfX[] = {kLoopFunctions[1], kLoopFunctions[5], kLoopFunctions[6]};

Tensor gradient_of(const LoopFunction& f, const Tensor& values, const Tensor& seed) {
  Tensor x = values.clone();
  x.requires_grad_();
  f.apply(x).backward(seed);
  return x.grad();
}

/** Numbers of which blocks of 1024 are all moderate, but for one infinity in the first block. */
Tensor with_infinity(Tensor x) {
  x.data<float>()[0] = std::numeric_limits<float>::infinity();
  return x;
}

/** Clears the sign of nan, which IEEE 754 (6.3) leaves open: it follows from the order of operands
 *  that the compiler chooses for a processor. */
Tensor without_nan_sign(const Tensor& x) {
  Tensor y = x.clone();
  for (std::int64_t i = 0; i < y.numel(); ++i)
    if (std::uint16_t& bits = y.data<BFloat16>()[i].bits; (bits & 0x7FFF) > 0x7F80) bits &= 0x7FFF;
  return y;
}

}  // namespace

TEST_CASE("every bf16 value gives the rounded result of its f32 value", "[ops]") {
  Tensor all = zeros({65536}).to(DType::bf16);
  for (std::uint32_t i = 0; i < 65536; ++i)
    all.data<BFloat16>()[i].bits = static_cast<std::uint16_t>(i);
  const Tensor wide = all.to(DType::f32);
  for (const LoopFunction& f : kLoopFunctions) {
    CAPTURE(f.name);
    CHECK(
        same_bits(without_nan_sign(f.apply(all)), without_nan_sign(f.apply(wide).to(DType::bf16))));
  }
}

TEST_CASE("gradients of bf16 operands are the rounded ones of f32 operands", "[ops]") {
  const Tensor x = with_infinity(randn({4096}) * 30.0).to(DType::bf16);
  const Tensor seed = randn({4096}).to(DType::bf16);
  for (const LoopFunction& f : kOfX) {
    CAPTURE(f.name);
    const Tensor wide = gradient_of(f, x.to(DType::f32), seed.to(DType::f32));
    CHECK(same_bits(gradient_of(f, x, seed), wide.to(DType::bf16)));
  }
}

TEST_CASE("bf16 times a number has the rounded f32 result", "[ops]") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = with_infinity(randn({4096}) * 30.0).to(DType::bf16), wide = x.to(DType::f32);
  // bf16 holds the first five, the last two it does not
  for (const float value : {0.5f, -2.0f, 0.0f, inf, 1.0f / 256, 0.1f, 257.0f}) {
    CAPTURE(value);
    const Tensor number = full({}, value);
    CHECK(same_bits(mul(x, number), mul(wide, number).to(DType::bf16)));
    CHECK(same_bits(mul(number, x), mul(number, wide).to(DType::bf16)));
    CHECK(same_bits(x * static_cast<double>(value), mul(wide, number).to(DType::bf16)));
  }
}

TEST_CASE("column sums of bf16 values are the rounded ones of f32 values", "[ops]") {
  for (const std::int64_t columns : {3, 63, 64, 300, 1000}) {
    CAPTURE(columns);
    const Tensor x = randn({200, columns}).to(DType::bf16);
    CHECK(same_bits(sum(x, {0}), sum(x.to(DType::f32), {0}).to(DType::bf16)));
  }
}

TEST_CASE("an infinity does not change the bits of its neighbours' results", "[ops]") {
  const Tensor x = randn({1024}) * 20.0, seed = randn({1024});
  const Tensor other = with_infinity(x.clone());
  const auto check = [](const Tensor& a, const Tensor& b) {
    CHECK(same_bits(a.narrow(0, 1, 1023).clone(), b.narrow(0, 1, 1023).clone()));
  };
  for (const LoopFunction& f : kLoopFunctions) {
    CAPTURE(f.name);
    check(f.apply(x), f.apply(other));
    check(gradient_of(f, x, seed), gradient_of(f, other, seed));
  }
}

TEST_CASE("batch and group norm of bf16 values are the rounded ones of f32 values", "[ops]") {
  // numbers of channels below, at and beyond a vector, and beyond the piece of a row
  const std::vector<Shape> shapes = {{70, 3},       {66, 40},      {3, 1030},      {5, 3, 7, 7},
                                     {4, 20, 3, 3}, {3, 64, 8, 8}, {2, 256, 5, 5}, {2, 6, 300}};
  const auto run = [](const Tensor& values, const Tensor& seed, const Tensor& weight, auto norm) {
    Tensor x = values.clone();
    x.requires_grad_();
    const Tensor y = norm(x, weight);
    y.backward(seed);
    return std::pair(y.detach(), x.grad());
  };
  const auto check = [&](const Tensor& x, const Tensor& seed, const Tensor& weight, auto norm) {
    const auto [y, gx] = run(x, seed, weight, norm);
    const auto [wide_y, wide_gx] = run(x.to(DType::f32), seed.to(DType::f32), weight, norm);
    CHECK(same_bits(y.contiguous(), wide_y.to(DType::bf16).contiguous()));
    CHECK(same_bits(gx.contiguous(), wide_gx.to(DType::bf16).contiguous()));
  };
  for (const Shape& shape : shapes)
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      if (format == MemoryFormat::channels_last && shape.rank() != 4) continue;
      CAPTURE(str(shape), name(format));
      const Tensor x = (randn(shape) + 0.5).to(DType::bf16).to(format),
                   seed = randn(shape).to(DType::bf16).to(format), weight = rand({shape[1]}) + 0.5;
      check(x, seed, weight, [](const Tensor& v, const Tensor& w) {
        return batch_norm(v, {.weight = w, .training = true});
      });
      check(x, seed, weight, [](const Tensor& v, const Tensor& w) {
        return batch_norm(v, {.running_mean = w, .running_var = w, .weight = w});
      });
      check(x, seed, weight, [](const Tensor& v, const Tensor& w) {
        return batch_norm_relu(v, {.weight = w, .training = true});
      });
      const Tensor residual = with_infinity(randn(shape)).to(DType::bf16);
      check(x, seed, weight, [&](const Tensor& v, const Tensor& w) {
        // relu(norm + residual) with the norm rounded
        if (v.dtype() == DType::bf16)
          return batch_norm_relu(v, {.weight = w, .training = true}, residual);
        const Tensor norm = batch_norm(v, {.weight = w, .training = true}).to(DType::bf16);
        return relu(norm.to(DType::f32) + residual.to(DType::f32));
      });
      if (shape.rank() > 2)
        check(x, seed, weight,
              [](const Tensor& v, const Tensor& w) { return group_norm(v, 1, {.weight = w}); });
    }
}
