// Initial values of parameters. Each function overwrites its tensor, outside the graph, and returns it.
// Sees: autograd.
// Read next: init.cpp (the bounds), linear.h (who uses them).
#pragma once

#include <cstdint>
#include <string_view>

#include "../tensor/tensor.h"

namespace mezzo::nn::init {

/** Which side of a weight keeps its variance: the number of values a result is summed from, or that a value spreads to. */
enum class Fan : std::uint8_t { in, out };

/** What follows the layer: decides the gain. */
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

/** By how much standard deviations grow to make up for what the nonlinearity shrinks: 1, 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)), 3/4.
 *  `slope` is leaky_relu's alone. */
MZ_API double gain(Nonlinearity nonlinearity, double slope = 0.01);

/** Fan-in and fan-out of a weight [out, in, kernel...]. */
struct Fans {
  std::int64_t in = 0, out = 0;
};
/** Errors: ShapeError below two dimensions. */
MZ_API Fans fans_of(const Tensor& weight);

MZ_API const Tensor& constant_(const Tensor& x, double value);
MZ_API const Tensor& zeros_(const Tensor& x);
MZ_API const Tensor& ones_(const Tensor& x);

// Random values come from the thread's default generator, one draw for each call, sampled in f32 (f64 for f64) and rounded once.

/** Uniform in [low, high). */
MZ_API const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1);
MZ_API const Tensor& normal_(const Tensor& x, double mean = 0, double std = 1);

struct TruncNormalOptions {
  double mean = 0, std = 1;
  double low = -2, high = 2;  // nothing outside, in the tensor's units
};
/** Normal values conditioned on lying in [low, high]. Errors: ValueError unless std > 0 and low < high. */
MZ_API const Tensor& trunc_normal_(const Tensor& x, const TruncNormalOptions& options = {});

/** Uniform in +-gain sqrt(6 / (fan_in + fan_out)). Errors: ShapeError below two dimensions. Source: Glorot, Bengio 2010. */
MZ_API const Tensor& xavier_uniform_(const Tensor& weight, double gain = 1);
/** Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)). Errors: ShapeError below two dimensions. */
MZ_API const Tensor& xavier_normal_(const Tensor& weight, double gain = 1);

struct KaimingOptions {
  double slope = 0;  // of leaky_relu
  Fan fan = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
/** Uniform in +-gain sqrt(3 / fan). Errors: ShapeError below two dimensions. Source: He, Zhang, Ren, Sun 2015. */
MZ_API const Tensor& kaiming_uniform_(const Tensor& weight, const KaimingOptions& options = {});
/** Normal with standard deviation gain / sqrt(fan). Errors: ShapeError below two dimensions. */
MZ_API const Tensor& kaiming_normal_(const Tensor& weight, const KaimingOptions& options = {});

/** A weight, seen as a matrix [size 0, the rest], with orthonormal rows or, where there are fewer, columns, times gain.
 *  Errors: ShapeError below two dimensions. Source: Saxe, McClelland, Ganguli 2013. */
MZ_API const Tensor& orthogonal_(const Tensor& weight, double gain = 1);

/** The values PyTorch starts linear layers and convolutions from: weight and bias uniform in +-1 / sqrt(fan_in), the weight first. `bias` may be
 *  undefined. */
MZ_API void default_linear_(const Tensor& weight, const Tensor& bias);

}  // namespace mezzo::nn::init
