// Shape rules of embedding and its gradient.
#include "embedding.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"
#include "gather.h"

namespace mezzo::op {

std::int64_t padding_row(std::string_view op, std::int64_t padding_idx, std::int64_t rows) {
  if (padding_idx < -rows || padding_idx >= rows)
    fail<ValueError>(op, {.what = "padding_idx is not a row of the table",
                          .got = str(padding_idx),
                          .expected = str(-rows, "..", rows - 1)});
  return padding_idx < 0 ? padding_idx + rows : padding_idx;
}

OutSpecs Embedding::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("embedding", in[0]);
  if (!in[1].defined())
    fail<ValueError>("embedding",
                     {.what = "the table is undefined", .expected = "weight [num, dim]"});
  if (in[1].dim() != 2)
    fail<ShapeError>(
        "embedding",
        {.what = "the table must be a matrix", .got = str(in[1]), .expected = "weight [num, dim]"});
  if (attrs.padding_idx >= 0) padding_row("embedding", attrs.padding_idx, in[1].shape()[0]);
  Shape shape = in[0].shape();
  shape.push_back(in[1].shape()[1]);
  return {{shape, in[1].dtype()}};
}

OutSpecs EmbeddingGrad::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("embedding_grad", in[0]);
  bool fits = in[1].defined() && in[1].dim() == in[0].dim() + 1;
  for (int i = 0; fits && i < in[0].dim(); ++i) fits = in[0].shape()[i] == in[1].shape()[i];
  if (!fits)
    fail<ShapeError>("embedding_grad", {.what = "the gradient does not fit the index",
                                        .got = str(in),
                                        .expected = "the index's shape and one more dimension"});
  if (attrs.padding_idx >= 0) padding_row("embedding_grad", attrs.padding_idx, attrs.rows);
  return {{{attrs.rows, in[1].shape().back()}, in[1].dtype()}};
}

std::span<OpInfo* const> embedding_ops() { return infos_of(EmbeddingOps{}); }

}  // namespace mezzo::op
