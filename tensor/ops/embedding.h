// Lookup of table rows by index, and its gradient.
#pragma once

#include "../core/op.h"

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

/** Returns the row of the table that padding_idx names, counted from the front. Errors: ValueError
 *  unless padding_idx is in -rows..rows-1. */
std::int64_t padding_row(std::string_view op, std::int64_t padding_idx, std::int64_t rows);

using EmbeddingOps = type_list<Embedding, EmbeddingGrad>;

}  // namespace mezzo::op
