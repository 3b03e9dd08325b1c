// Ops that draw random numbers: in-place fills, and dropout. Every call takes one draw of a Philox
// 4x32-10 generator.
#pragma once

#include "../core/op.h"
#include "../random/philox.h"

namespace mezzo::op {

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
