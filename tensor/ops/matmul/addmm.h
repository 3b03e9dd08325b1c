// Matrix products added to a matrix: beta * C + alpha * A B in several arrangements, each rounded
// once.
#pragma once

#include "../../core/op.h"

namespace mezzo::op {

/** Factors of the added matrix (beta) and of the product (alpha). With beta = 0 the added matrix is
 *  not read. */
struct AddmmAttrs {
  double beta = 1, alpha = 1;
};

/** beta C + alpha times the sum of the products of all pairs of matrices. */
struct Addbmm {
  static constexpr OpTraits traits{.name = "addbmm",
                                   .precision = Precision::low,
                                   .summary = "beta C + alpha times the sum of all A_b B_b",
                                   .inputs = 3,
                                   .needs = {kNothing, input(2), input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep};
  using Attrs = AddmmAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Addmm {
  static constexpr OpTraits traits{.name = "addmm",
                                   .precision = Precision::low,
                                   .summary = "beta C + alpha A B",
                                   .inputs = 3,
                                   .needs = {kNothing, input(2), input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep};
  using Attrs = AddmmAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Addmv {
  static constexpr OpTraits traits{.name = "addmv",
                                   .precision = Precision::low,
                                   .summary = "beta c + alpha A v",
                                   .inputs = 3,
                                   .needs = {kNothing, input(2), input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep};
  using Attrs = AddmmAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** beta C + alpha times the outer product of two vectors. */
struct Addr {
  static constexpr OpTraits traits{.name = "addr",
                                   .precision = Precision::low,
                                   .summary = "beta C + alpha u v^T",
                                   .inputs = 3,
                                   .needs = {kNothing, input(2), input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep};
  using Attrs = AddmmAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Baddbmm {
  static constexpr OpTraits traits{
      .name = "baddbmm",
      .precision = Precision::low,
      .summary = "beta C_b + alpha A_b B_b for each entry b of a batch",
      .inputs = 3,
      .needs = {kNothing, input(2), input(1)},
      .in_place = true,
      .integers = Integers::keep};
  using Attrs = AddmmAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using AddmmOps = type_list<Addbmm, Addmm, Addmv, Addr, Baddbmm>;

}  // namespace mezzo::op
