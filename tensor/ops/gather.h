// Ops whose index tensor selects one element along a dimension for each element of the result:
// gather, scatter, scatter_add.
// See also: index.h (indices that select whole rows).
#pragma once

#include "../core/op.h"

namespace mezzo::op {

/** out[i][j][k] = x[i][index[i][j][k]][k] for dim 1, and so on for other dimensions. Operands:
 *  x, index. */
struct Gather {
  static constexpr OpTraits traits{.name = "gather",
                                   .precision = Precision::match,
                                   .summary = "elements at given indices along a dimension",
                                   .inputs = 2,
                                   .needs = {input(1)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** x with x[i][index[i][j][k]][k] = src[i][j][k]. If several writes hit one element, the last in
 *  index order wins. Operands: x, index, src. */
struct Scatter {
  static constexpr OpTraits traits{.name = "scatter",
                                   .precision = Precision::match,
                                   .summary = "writes elements to given indices along a dimension",
                                   .inputs = 3,
                                   .needs = {input(1), kNothing, input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** x with x[i][index[i][j][k]][k] += src[i][j][k], summed in f32 (f64, i64) in index order and
 *  rounded once. Operands: x, index, src. */
struct ScatterAdd {
  static constexpr OpTraits traits{.name = "scatter_add",
                                   .precision = Precision::promote,
                                   .summary = "adds elements at given indices along a dimension",
                                   .inputs = 3,
                                   .needs = {kNothing, kNothing, input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** gather after x and index are broadcast against each other in every other dimension. Operands: x,
 *  index. */
struct TakeAlongDim {
  static constexpr OpTraits traits{.name = "take_along_dim",
                                   .precision = Precision::match,
                                   .summary = "gather with broadcasting",
                                   .inputs = 2,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using GatherOps = type_list<Gather, Scatter, ScatterAdd, TakeAlongDim>;

/** Checks an index tensor. Errors: DtypeError naming `op` unless it is defined and i64 or i32. */
void require_index_dtype(std::string_view op, const Tensor& index);

/** The permitted values of an index tensor: lowest..size-1. */
struct IndexRange {
  std::string_view op;  // static name of the op, for errors
  Shape index;          // shape of the index tensor
  TensorMeta x;         // the indexed tensor, along `dim`
  int dim = 0;
  std::int64_t lowest = 0, size = 0;
  friend bool operator==(const IndexRange& a, const IndexRange& b) {
    return a.op == b.op && a.index == b.index && a.x.shape == b.x.shape && a.x.dtype == b.x.dtype &&
           a.x.device == b.x.device && a.dim == b.dim && a.lowest == b.lowest && a.size == b.size;
  }
};

/** Throws IndexError naming the out-of-range value at row-major position `at` of the index. */
[[noreturn]] void fail_index(const IndexRange& range, std::int64_t at, std::int64_t value);

}  // namespace mezzo::op
