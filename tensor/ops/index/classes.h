// Ops on class indices: one_hot, and the weights and masks of classes that the losses use.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Returns, for every class in x, a row of zeros with a one at the class, i64. A row has `classes`
 *  columns; -1 counts as many as are needed, which synchronises with the device.
 *  Shape: x's and one more dimension.
 *  Gradient: none.
 *  Errors: IndexError for a class out of range; DtypeError unless x is i64 or i32; ValueError for
 *  classes < 1, or where they are to be counted and x is empty. */
MZ_API Tensor one_hot(const Tensor& x, std::int64_t classes = -1);

}  // namespace mezzo

namespace mezzo::op {

/** The weight of each target's class. Operands: target, weight (classes) or undefined. Results: the
 *  indices as i64 and the weight of each class, both 0 for ignored targets. Errors: IndexError
 *  naming the first class out of range. */
struct ClassWeights {
  static constexpr OpTraits traits{.name = "class_weights",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .outputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    std::string_view op;  // for error messages; points to the static name in OpTraits
    std::int64_t classes = 0;
    std::int64_t ignore_index = -100;
    DType dtype = DType::f32;  // of the weights
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** True for each class that a row of the operand lists before its first -1. Errors: IndexError
 *  naming the first class out of range. */
struct NamedClasses {
  static constexpr OpTraits traits{.name = "named_classes",
                                   .precision = Precision::match,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    std::string_view op;  // for error messages; points to the static name in OpTraits
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** A row of `classes` zeros with a one at the class, for each class; i64. */
struct OneHot {
  static constexpr OpTraits traits{.name = "one_hot",
                                   .precision = Precision::match,
                                   .summary = "for each class a row: 1 at the class, 0 elsewhere",
                                   .differentiable = false,
                                   .integers = Integers::only};
  struct Attrs {
    std::int64_t classes = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using ClassesOps = type_list<ClassWeights, NamedClasses, OneHot>;

}  // namespace mezzo::op
