// Ops that order the elements along a dimension: sort, argsort, topk, kthvalue,
// quantile.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

// All share one order: nan is greatest, -0 equals +0, and equal elements stay in index order, in
// descending order too.

/** Elements along `dim` in order, and the index of each in the operand. */
struct Sort {
  static constexpr OpTraits traits{.name = "sort",
                                   .precision = Precision::match,
                                   .summary = "sorted elements, with their indices",
                                   .outputs = 2,
                                   .needs = {output(1)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = -1;
    bool descending = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The indices of Sort. */
struct Argsort {
  static constexpr OpTraits traits{.name = "argsort",
                                   .precision = Precision::match,
                                   .summary = "indices that sort the elements",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = Sort::Attrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** The first k elements of the sorted ones, in that order, or in index order if not `sorted`. */
struct Topk {
  static constexpr OpTraits traits{
      .name = "topk",
      .precision = Precision::match,
      .summary = "the k largest or smallest elements, with their indices",
      .outputs = 2,
      .needs = {output(1)},
      .integers = Integers::keep,
      .booleans = true};
  struct Attrs {
    std::int64_t k = 0;
    std::int64_t dim = -1;
    bool largest = true;
    bool sorted = true;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The k-th smallest element, counted from 1, and its index. */
struct Kthvalue {
  static constexpr OpTraits traits{.name = "kthvalue",
                                   .precision = Precision::match,
                                   .summary = "the k-th smallest element, with its index",
                                   .outputs = 2,
                                   .needs = {output(1)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t k = 1;
    std::int64_t dim = -1;
    bool keepdim = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** How Quantile chooses between two elements; the values of QuantileInterpolation. */
enum class Interpolation : std::uint8_t { linear, lower, higher, midpoint, nearest };

/** The elements of operand 0 below which the shares in operand 1 lie. */
struct Quantile {
  static constexpr OpTraits traits{.name = "quantile",
                                   .precision = Precision::match,
                                   .summary = "values below which given shares of the elements lie",
                                   .inputs = 2};
  struct Attrs {
    std::optional<std::int64_t> dim;  // not set: of all elements
    bool keepdim = false;
    Interpolation interpolation = Interpolation::linear;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using SortOps = type_list<Argsort, Kthvalue, Quantile, Sort, Topk>;

}  // namespace mezzo::op
