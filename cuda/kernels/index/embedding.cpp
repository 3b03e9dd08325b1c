// The lookup of embeddings and its gradient on the device, in terms of take_rows and add_rows.
#include "../../../tensor/ops/index/embedding.h"

#include "../../attach.h"
#include "../rows.h"
#include "../shape/copy.h"

namespace mezzo::gpu {

namespace {

using op::IndexedDims;

void embedding(Inputs in, Outputs out, const op::Embedding::Attrs&) {
  const std::int64_t rows = in[1].shape()[0];
  take_rows(Rows::indexed(in[1], IndexedDims(1u, 2)), Names("embedding", in[0], in[1], 0, rows),
            Rows::plain(out[0], 0, out[0].dim() - 1));
}

void embedding_grad(Inputs in, Outputs out, const op::EmbeddingGrad::Attrs& attrs) {
  fill_elements(out[0], 0);
  const Names names("embedding_grad", in[0], out[0], 0, attrs.rows);
  add_rows(Rows::plain(in[1], 0, in[1].dim() - 1), names, attrs.rows,
           Rows::indexed(out[0], IndexedDims(1u, 2)), compute_dtype(out[0].dtype()),
           {.overwrite = true, .average = attrs.scale_grad_by_freq, .skipped = attrs.padding_idx});
}

}  // namespace

void attach_embedding() {
  attach<op::Embedding, embedding>();
  attach<op::EmbeddingGrad, embedding_grad>();
}

}  // namespace mezzo::gpu
