// Looking up rows of a table by index. ops.h explains the notation and the precision tags.
#pragma once

#include <optional>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Options of embedding. */
struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx =
      {};                           // this row gets no gradient; negative counts from the end
  bool scale_grad_by_freq = false;  // divide each row's gradient by how often the row was looked up
};

/** Returns the rows of `weight` that `index` selects.
 *  Shape: index of any shape, i64 or i32, 0..num-1; weight [num, dim]; returns [index.., dim].
 *  Precision: match, for weight.
 *  Gradient: rows of g summed by index in f32 (f64) in index order, rounded once; 0 for the row of
 *  padding_idx.
 *  Errors: DtypeError, ShapeError; IndexError (names the first index out of range); ValueError for
 *  a padding_idx that is not a row. */
MZ_API Tensor embedding(const Tensor& index, const Tensor& weight,
                        const EmbeddingOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** The rows of weight [num, dim] that index selects, of shape index.shape + [dim]. Operands: index,
 *  weight. */
struct Embedding {
  static constexpr OpTraits traits{.name = "embedding",
                                   .precision = Precision::match,
                                   .summary = "rows of a table looked up by index",
                                   .inputs = 2,
                                   .needs = {kNothing, input(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    std::int64_t padding_idx = -1;    // the row that gets no gradient; negative: none
    bool scale_grad_by_freq = false;  // divide each row's gradient by the number of its lookups
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of the table: the rows of g summed by index in f32 (f64), in index order, rounded once.
 *  Operands: index, g [index.., dim]. */
struct EmbeddingGrad {
  static constexpr OpTraits traits{.name = "embedding_grad",
                                   .precision = Precision::match,
                                   .summary = "gradient of embedding's table",
                                   .inputs = 2,
                                   .needs = {kNothing, input(0)},
                                   .internal = true};
  struct Attrs {
    std::int64_t rows = 0;  // rows of the table
    std::int64_t padding_idx = -1;
    bool scale_grad_by_freq = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Returns embedding(), on a GPU as a late result: add_layer_norm reads index and table instead.
 *  Errors: as embedding(); StateError if one of them was modified before it is read. */
Tensor late_embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options);

/** Returns the row of the table that padding_idx names, counted from the front. Errors: ValueError
 *  unless padding_idx is in -rows..rows-1. */
std::int64_t padding_row(std::string_view op, std::int64_t padding_idx, std::int64_t rows);

using EmbeddingOps = type_list<Embedding, EmbeddingGrad>;

}  // namespace mezzo::op
