// Ordering elements along a dimension: sort, argsort, topk, kthvalue, quantile. ops.h explains the
// notation and the precision tags.
//
// In all of them nan counts as largest, -0 equals +0, and equal elements keep the order of their
// indices, in descending order too.
#pragma once

#include <optional>

#include "../../core/op.h"
#include "../reduce/reduce.h"

namespace mezzo {

/** Options of sort and argsort. */
struct SortOptions {
  std::int64_t dim = -1;    // the dimension to sort along
  bool descending = false;  // largest first
};

/** Returns the elements along a dimension in order, and the index (i64) that each came from;
 *  stable.
 *  Shape: x's, for both results.
 *  Precision: match.
 *  Gradient: g scattered to the indices.
 *  Errors: IndexError for a bad dimension. */
MZ_API ValuesAndIndices sort(const Tensor& x, const SortOptions& options = {});

/** Returns the indices (i64) that sort returns. */
MZ_API Tensor argsort(const Tensor& x, const SortOptions& options = {});

/** Options of topk. */
struct TopkOptions {
  std::int64_t dim = -1;  // the dimension to search along
  bool largest = true;    // false: the smallest
  bool sorted = true;     // false: in the order of their indices
};

/** Returns the k largest (smallest) elements along a dimension and their indices (i64); among
 *  equals those of lower index.
 *  Shape: x's, with size k along the dimension.
 *  Precision: match.
 *  Gradient: g scattered to the indices.
 *  Errors: ValueError unless 0 <= k <= size; IndexError for a bad dimension. */
MZ_API ValuesAndIndices topk(const Tensor& x, std::int64_t k, const TopkOptions& options = {});

/** Options of kthvalue. */
struct KthvalueOptions {
  std::int64_t dim = -1;  // the dimension to search along
  bool keepdim = false;   // keep the dimension, with size 1
};

/** Returns the k-th smallest element along a dimension, counted from 1, and its index (i64).
 *  Shape: x's without the dimension (with size 1 if keepdim).
 *  Precision: match.
 *  Gradient: g scattered to the index.
 *  Errors: ValueError unless 1 <= k <= size; IndexError for a bad dimension. */
MZ_API ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k,
                                 const KthvalueOptions& options = {});

/** What quantile returns for a share between two elements. */
enum class QuantileInterpolation : std::uint8_t {
  linear,    // in proportion
  lower,     // the lower element
  higher,    // the higher element
  midpoint,  // their mean
  nearest,   // the nearer element; of two equally near the one of even index
};

/** Options of quantile. */
struct QuantileOptions {
  std::optional<std::int64_t> dim = {};  // the dimension; not given: all elements
  bool keepdim = false;                  // keep the dimension, with size 1
  QuantileInterpolation interpolation = QuantileInterpolation::linear;  // between two elements
};

/** Returns the value below which the share q of the sorted elements lies; nan where there is a nan.
 *  Shape: q is 0-dim or 1-D; the result has q's shape, then x's without the dimension.
 *  Precision: match; places in f64, values interpolated in f32 (f64). Unlike PyTorch, f16 and bf16
 *  are accepted, an infinity beside a number or its equal gives infinity, and x may have any size.
 *  Gradient: for the two elements in proportion, and for q.
 *  Errors: ValueError unless 0 <= q <= 1 (on a GPU q is not checked: nan, or an IndexError) and for
 *  no elements; DtypeError for integers; ShapeError; IndexError for a bad dimension. */
MZ_API Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options = {});
/** Does the same for a number q. */
MZ_API Tensor quantile(const Tensor& x, double q, const QuantileOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

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
