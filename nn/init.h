// Initialisation of parameters. Each function overwrites its tensor without recording and returns
// it.
#pragma once

#include <cstdint>
#include <string_view>

#include "../tensor/core/tensor.h"

namespace mezzo::nn::init {

/** The number that scales the variance of a weight: `in` is the number of inputs of each output
 *  and preserves the variance of activations; `out` is the number of outputs that each input
 *  contributes to and preserves the variance of gradients. */
enum class Fan : std::uint8_t { in, out };

/** The nonlinearity after a layer; determines the gain. */
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

/** Returns the factor for the standard deviation of weights that compensates for the
 *  nonlinearity, in the order of the enumerators: 1, 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)),
 *  3/4. Only leaky_relu uses `slope`. */
MZ_API double gain(Nonlinearity nonlinearity, double slope = 0.01);

/** Fan-in and fan-out of a weight [out, in, kernel...]. */
struct Fans {
  /** Number of inputs of each output. */
  std::int64_t in = 0, out = 0;  // number of outputs that each input contributes to
};
/** Returns fan-in and fan-out of a weight. Errors: ShapeError below two dimensions. */
MZ_API Fans fans_of(const Tensor& weight);

/** Fills x with one value. */
MZ_API const Tensor& constant_(const Tensor& x, double value);
/** Fills x with 0. */
MZ_API const Tensor& zeros_(const Tensor& x);
/** Fills x with 1. */
MZ_API const Tensor& ones_(const Tensor& x);

// Random values come from the thread's default generator, with one draw for each call. They are
// sampled in f32 (f64 for f64) and rounded once.

/** Fills x with values uniform in [low, high). */
MZ_API const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1);
/** Fills x with normal values. */
MZ_API const Tensor& normal_(const Tensor& x, double mean = 0, double std = 1);

/** Options of init::trunc_normal_. */
struct TruncNormalOptions {
  /** Mean before truncation. */
  double mean = 0, std = 1;  // standard deviation before truncation; positive
  /** Smallest value, whatever mean and std are. */
  double low = -2, high = 2;  // largest value
};
/** Fills x with normal values restricted to [low, high]. Errors: ValueError unless std > 0 and
 *  low < high. */
MZ_API const Tensor& trunc_normal_(const Tensor& x, const TruncNormalOptions& options = {});

/** Fills a weight with values uniform in +-gain sqrt(6 / (fan_in + fan_out)). Errors: ShapeError
 *  below two dimensions. Source: Glorot, Bengio 2010. */
MZ_API const Tensor& xavier_uniform_(const Tensor& weight, double gain = 1);
/** Fills a weight with normal values of standard deviation gain sqrt(2 / (fan_in + fan_out)).
 *  Errors: ShapeError below two dimensions. */
MZ_API const Tensor& xavier_normal_(const Tensor& weight, double gain = 1);

/** Options of init::kaiming_uniform_ and init::kaiming_normal_. */
struct KaimingOptions {
  double slope = 0;                                      // negative slope; used with leaky_relu
  Fan fan = Fan::in;                                     // fan-in or fan-out; PyTorch's name: mode
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;  // determines the gain
};
/** Fills a weight with values uniform in +-gain sqrt(3 / fan). Errors: ShapeError below two
 *  dimensions. Source: He, Zhang, Ren, Sun 2015. */
MZ_API const Tensor& kaiming_uniform_(const Tensor& weight, const KaimingOptions& options = {});
/** Fills a weight with normal values of standard deviation gain / sqrt(fan). Errors: ShapeError
 *  below two dimensions. */
MZ_API const Tensor& kaiming_normal_(const Tensor& weight, const KaimingOptions& options = {});

/** Fills a weight, viewed as a matrix [size 0, product of the other sizes], with gain times
 *  orthonormal rows, or orthonormal columns if there are fewer columns than rows. Errors:
 *  ShapeError below two dimensions. Source: Saxe, McClelland, Ganguli 2013. */
MZ_API const Tensor& orthogonal_(const Tensor& weight, double gain = 1);

/** Fills weight and bias with values uniform in +-1 / sqrt(fan_in), the weight first. PyTorch
 *  initialises linear layers and convolutions with this distribution. `bias` may be undefined. */
MZ_API void default_linear_(const Tensor& weight, const Tensor& bias);

}  // namespace mezzo::nn::init
