// Random tensors and dropout. The same seed gives the same numbers for any number of threads and on
// any device. Each call takes one draw of this thread's default generator. ops.h explains the
// precision tags.
#pragma once

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../../random/generator.h"
#include "../../random/philox.h"
#include "../create.h"

namespace mezzo {

/** Returns numbers uniformly distributed in [0, 1).
 *  Precision: drawn in f32 (f64 for f64), rounded once, towards 0. Unlike PyTorch, which rounds to
 *  nearest, no dtype gives 1. */
MZ_API Tensor rand(const Shape& shape, const TensorOptions& options = {});
/** Returns standard normal numbers, drawn in the same precision. */
MZ_API Tensor randn(const Shape& shape, const TensorOptions& options = {});
/** Returns numbers as rand, of a dtype. */
template <std::same_as<DType> D> Tensor rand(const Shape& shape, D dtype, Device device = cpu) {
  return rand(shape, TensorOptions{.dtype = dtype, .device = device});
}
/** Returns numbers as randn, of a dtype. */
template <std::same_as<DType> D> Tensor randn(const Shape& shape, D dtype, Device device = cpu) {
  return randn(shape, TensorOptions{.dtype = dtype, .device = device});
}
/** Returns integers uniformly distributed in [low, high), i64 unless another dtype is given.
 *  Errors: ValueError unless low < high and the dtype holds each of these integers. */
MZ_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                      const TensorOptions& options = {});
/** Returns the integers 0..n-1 in random order, i64 [n].
 *  Errors: ValueError for n < 0. */
MZ_API Tensor randperm(std::int64_t n);
/** Returns numbers as rand, with the shape, dtype and device of x. */
MZ_API Tensor rand_like(const Tensor& x);
/** Returns numbers as randn, with the shape, dtype and device of x. */
MZ_API Tensor randn_like(const Tensor& x);

/** Options of multinomial. */
struct MultinomialOptions {
  bool replacement = false;  // draw with replacement: a class may be drawn several times
};

/** Draws classes (i64) with probabilities proportional to the rows of `weights`, in the order of
 * the draws. A class of weight 0 is never drawn. Drawn in f64. Synchronises with the device. Shape:
 * weights [classes] or [rows, classes]; [num_samples] or [rows, num_samples]. Precision: any
 * floating dtype. Gradient: none. Errors: ShapeError; DtypeError for integers; ValueError for
 * weights that are negative, infinite or nan or have an infinite sum, rows of zeros,
 * num_samples < 1, and, without replacement, more samples than classes of positive weight. Source:
 * without replacement, the largest of ln(weight) + a Gumbel variable: Gumbel, Statistical theory of
 * extreme values, 1954; Vieira, Gumbel-max trick and weighted reservoir sampling, 2014.
 */
MZ_API Tensor multinomial(const Tensor& weights, std::int64_t num_samples,
                          const MultinomialOptions& options = {});

/** Overwrites self with numbers uniformly distributed in [low, high), rounded towards low, so that
 *  no dtype gives high. The width of the range may be infinite in the dtype.
 *  Errors: ValueError unless low <= high and the dtype holds both; DtypeError for integers. */
MZ_API const Tensor& uniform_(const Tensor& self, double low = 0, double high = 1);
/** Overwrites self with normally distributed numbers.
 *  Errors: ValueError unless std >= 0; DtypeError for integers. */
MZ_API const Tensor& normal_(const Tensor& self, double mean = 0, double std = 1);
/** Overwrites self with 1 at probability p, else 0.
 *  Errors: ValueError unless 0 <= p <= 1. */
MZ_API const Tensor& bernoulli_(const Tensor& self, double p = 0.5);
/** Overwrites self with integers uniformly distributed in [low, high).
 *  Errors: ValueError unless low < high and self's dtype holds each of these integers. */
MZ_API const Tensor& randint_(const Tensor& self, std::int64_t low, std::int64_t high);

/** Options of dropout. */
struct DropoutOptions {
  double p = 0.5;        // probability of dropping an element
  bool training = true;  // false: x itself is returned
};

/** Zeroes elements with probability p and multiplies the others by 1 / (1 - p).
 *  Shape: any.
 *  Precision: match.
 *  Gradient: g times the same factor where the element was kept, exactly 0 elsewhere, with the mask
 *  of the forward pass.
 *  Errors: ValueError unless 0 <= p <= 1; DtypeError for integers.
 *  Source: Srivastava et al., JMLR 15, 2014. */
MZ_API Tensor dropout(const Tensor& x, const DropoutOptions& options = {});
/** Overwrites self with dropout(self, options) and returns it. */
MZ_API const Tensor& dropout_(const Tensor& self, const DropoutOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

// Every call takes one draw of a Philox 4x32-10 generator.

/** Parameters of a distribution, and the random stream. */
struct RandomAttrs {
  double a = 0, b = 1;
  PhiloxStream stream{};
};

/** Functions shared by the fills. The result replaces the operand, whose old values are unused. */
struct RandomFill {
  using Attrs = RandomAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** 1 with probability a, else 0. */
struct Bernoulli : RandomFill {
  static constexpr OpTraits traits{.name = "bernoulli",
                                   .precision = Precision::match,
                                   .summary = "random numbers: 1 with a given probability, else 0",
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Normal with mean a and standard deviation b. */
struct Normal : RandomFill {
  static constexpr OpTraits traits{.name = "normal",
                                   .precision = Precision::match,
                                   .summary = "random numbers of a normal distribution",
                                   .in_place = true};
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Uniform integers in [a, b). */
struct Randint : RandomFill {
  static constexpr OpTraits traits{.name = "randint",
                                   .precision = Precision::match,
                                   .summary = "random integers, uniform in [low, high)",
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Uniform in [a, b). */
struct Uniform : RandomFill {
  static constexpr OpTraits traits{.name = "uniform",
                                   .precision = Precision::match,
                                   .summary = "random numbers, uniform in [low, high)",
                                   .in_place = true};
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Each element is 0 with probability p, else x * dropout_scale(p). The second result is the mask
 *  of the kept elements. */
struct Dropout {
  static constexpr OpTraits traits{
      .name = "dropout",
      .precision = Precision::match,
      .summary = "zeroes elements at random, scales the others by 1 / (1 - p)",
      .outputs = 2,
      .needs = {output(1)},
      .in_place = true,
      .channels_last = ChannelsLast::like_first};
  struct Attrs {
    double p = 0.5;
    PhiloxStream stream{};
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Returns 1 / (1 - p), the factor of the elements that dropout keeps; 0 if it keeps none. */
inline double dropout_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

using RandomOps = type_list<Bernoulli, Dropout, Normal, Randint, Uniform>;

}  // namespace mezzo::op
