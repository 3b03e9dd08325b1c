// Shape rules, gradients and public functions of the ops in random.h.
#include "random.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../random/draw.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../elementwise/selection.h"
#include "../require.h"

namespace mezzo::op {

OutSpecs RandomFill::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

OutSpecs Dropout::infer(Inputs in, const Attrs&) {
  if (!is_floating(in[0].dtype()))
    fail<DtypeError>(
        "dropout",
        {.what = "not defined for integers", .got = str(in[0]), .expected = "a floating dtype"});
  return {{in[0].shape(), in[0].dtype()}, {in[0].shape(), DType::boolean}};
}

std::span<OpInfo* const> random_ops() { return infos_of(RandomOps{}); }

// Gradients of the random ops.

Grads RandomFill::backward(const Saved&, const Grads&) { return {Tensor{}}; }

Grads Dropout::backward(const Saved& saved, const Grads& gy) {
  // Dropped elements get an exact 0 even where the incoming gradient is inf or nan.
  return {
      apply_with<MaskedScale>({dropout_scale(saved.attrs<Dropout>().p)}, gy[0], saved.outputs[1])};
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

void require(bool ok, const char* op, const char* what, const std::string& got,
             const char* expected) {
  if (!ok) fail<ValueError>(op, {.what = what, .got = got, .expected = expected});
}

void require_floating(const Tensor& x, const char* op) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(
        op, {.what = "not defined for integers", .got = str(x), .expected = "a floating dtype"});
}

/** Throws ValueError unless the dtype holds each integer in [low, high). */
void require_held(DType dtype, std::int64_t low, std::int64_t high) {
  // The largest integer up to which the dtype holds all, and the least.
  const std::int64_t most = visit_dtype(dtype, []<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<std::int64_t>(std::numeric_limits<T>::max());
    else if constexpr (std::is_same_v<T, Half>)
      return std::int64_t{1} << 11;
    else if constexpr (std::is_same_v<T, BFloat16>)
      return std::int64_t{1} << 8;
    else
      return std::int64_t{1} << std::numeric_limits<T>::digits;
  });
  const bool is_unsigned = dtype == DType::boolean || dtype == DType::u8;
  const std::int64_t least = is_unsigned ? 0 : is_floating(dtype) ? -most : -most - 1;
  if (low >= least && high - 1 <= most) return;
  fail<ValueError>("randint", {.what = str("the range has numbers that ", dtype, " cannot hold"),
                               .got = str("[", low, ", ", high, ")"),
                               .expected = str("integers from ", least, " to ", most,
                                               ", the largest up to which ", dtype, " is exact"),
                               .hint = "use a wider dtype"});
}

/** Returns the random stream of the next op on x's device. The op itself throws for an undefined
 *  x. */
PhiloxStream next_stream_for(const Tensor& x) {
  return default_generator().next_stream(x.defined() ? x.device() : cpu);
}

/** Returns a new tensor that fill() has filled; it has `dtype` unless the options give one. */
template <class F>
Tensor filled(const Shape& shape, const TensorOptions& options, DType dtype, F&& fill) {
  const Tensor x = empty_tensor(shape, options.dtype_or(dtype), options.device, options.pin_memory);
  {
    const NoGrad no_grad;
    fill(x);
  }
  if (options.requires_grad) x.requires_grad_();
  return x;
}

template <class Op> const Tensor& fill_random(const Tensor& self, double a, double b) {
  const Draw draw;
  return apply_in_place<Op>({a, b, next_stream_for(self)}, self);
}

}  // namespace

const Tensor& uniform_(const Tensor& self, double low, double high) {
  require_floating(self, "uniform_");
  require(std::isfinite(low) && std::isfinite(high) && low <= high, "uniform_",
          "bounds out of order", str("[", low, ", ", high, ")"), "finite low <= high");
  const double largest = self.dtype() == DType::f16    ? 65504
                         : self.dtype() == DType::bf16 ? 0x1.fep127
                         : self.dtype() == DType::f32  ? std::numeric_limits<float>::max()
                                                       : std::numeric_limits<double>::max();
  if (!(std::fabs(low) <= largest && std::fabs(high) <= largest))
    fail<ValueError>("uniform_", {.what = "bounds out of the range of the dtype",
                                  .got = str("[", low, ", ", high, ") for ", self),
                                  .expected = str("numbers up to ", largest)});
  return fill_random<op::Uniform>(self, low, high);
}

const Tensor& normal_(const Tensor& self, double mean, double std) {
  require_floating(self, "normal_");
  require(std >= 0 && std::isfinite(std), "normal_", "bad standard deviation", str(std),
          "std >= 0");
  return fill_random<op::Normal>(self, mean, std);
}

const Tensor& bernoulli_(const Tensor& self, double p) {
  require(p >= 0 && p <= 1, "bernoulli_", "bad probability", str(p), "0 <= p <= 1");
  return fill_random<op::Bernoulli>(self, p, 1);
}

const Tensor& randint_(const Tensor& self, std::int64_t low, std::int64_t high) {
  require(low < high, "randint", "empty range", str("[", low, ", ", high, ")"), "low < high");
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  require(low >= -kExact && high <= kExact, "randint", "bound too large",
          str("[", low, ", ", high, ")"), "bounds within 2^53");
  if (self.defined()) require_held(self.dtype(), low, high);
  return fill_random<op::Randint>(self, static_cast<double>(low), static_cast<double>(high));
}

Tensor rand(const Shape& shape, const TensorOptions& options) {
  return filled(shape, options, DType::f32, [](const Tensor& x) { uniform_(x); });
}

Tensor randn(const Shape& shape, const TensorOptions& options) {
  return filled(shape, options, DType::f32, [](const Tensor& x) { normal_(x); });
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               const TensorOptions& options) {
  return filled(shape, options, DType::i64, [&](const Tensor& x) { randint_(x, low, high); });
}

Tensor rand_like(const Tensor& x) {
  return rand(x.shape(), {.dtype = x.dtype(), .device = x.device()});
}
Tensor randn_like(const Tensor& x) {
  return randn(x.shape(), {.dtype = x.dtype(), .device = x.device()});
}

Tensor randperm(std::int64_t n) {
  require(n >= 0, "randperm", "negative length", str(n), "n >= 0");
  const ApiScope called("randperm");
  const Tensor order = empty_tensor({n}, DType::i64, cpu);
  std::int64_t* data = order.data<std::int64_t>();
  std::iota(data, data + n, std::int64_t{0});
  const PhiloxStream stream = default_generator().next_stream();
  // Fisher-Yates shuffle: position i gets one of the remaining numbers.
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    const PhiloxBlock words = philox_block(stream, static_cast<std::uint64_t>(i));
    const auto step = static_cast<std::int64_t>(
        uniform_below(static_cast<std::uint64_t>(n - i), words.word[0], words.word[1]));
    std::swap(data[i], data[i + step]);
  }
  return order;
}

namespace {

void require_probability(const DropoutOptions& options) {
  require(options.p >= 0 && options.p <= 1, "dropout", "bad probability", str(options.p),
          "0 <= p <= 1");
}

}  // namespace

Tensor dropout(const Tensor& x, const DropoutOptions& options) {
  require_probability(options);
  if (!options.training || options.p == 0) return x;
  const Draw draw;
  return apply_with<op::Dropout>({options.p, next_stream_for(x)}, x);
}

const Tensor& dropout_(const Tensor& self, const DropoutOptions& options) {
  require_probability(options);
  require_defined("dropout_", self);
  require_floating(self, "dropout_");
  if (!options.training || options.p == 0) return self;
  const Draw draw;
  const CastScope no_casts(nullptr);
  Tensor kept;
  {
    const NoGrad no_grad;
    kept = apply_all<op::Dropout>({options.p, next_stream_for(self)}, self)[1];
  }
  // self is written once, at the end, so it is unchanged if something throws.
  return self.copy_(apply_with<op::MaskedScale>({op::dropout_scale(options.p)}, self, kept));
}

}  // namespace mezzo
