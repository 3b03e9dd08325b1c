// Kernels of embedding and its gradient.
#include "embedding.h"

#include <cstring>

#include "../../core/dispatch.h"
#include "../../cpu/block_rows.h"
#include "index_list_cpu.h"

namespace mezzo::op {

namespace {

using cpu_kernels::Blocks;

/** Returns the checked indices as one list of rows. */
Tensor checked_rows(const char* op, const Tensor& index, const Tensor& table) {
  const Tensor rows = cpu_kernels::checked_indices(index, {op, table, 0, table.shape()[0]});
  return alias(rows, {rows.numel()}, {1}, rows.impl()->offset);
}

}  // namespace

void Embedding::cpu(Inputs in, Outputs out, const Attrs&) {
  const Tensor rows = checked_rows("embedding", in[0], in[1]);
  if (out[0].numel() == 0) return;
  const IndexedDims dims(1u, 2);
  cpu_kernels::move_blocks(Blocks::indexed(in[1], dims, rows),
                           Blocks::plain(out[0], 0, out[0].dim() - 1));
}

void EmbeddingGrad::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const Tensor rows = checked_rows("embedding_grad", in[0], out[0]);
  std::memset(out[0].raw_data(), 0,
              static_cast<std::size_t>(out[0].numel()) * item_size(out[0].dtype()));
  if (out[0].numel() == 0) return;
  const IndexedDims dims(1u, 2);
  cpu_kernels::add_blocks(
      Blocks::plain(in[1], 0, in[1].dim() - 1), Blocks::indexed(out[0], dims, rows),
      cpu_kernels::RowGroups(rows, attrs.rows, attrs.padding_idx), compute_dtype(out[0].dtype()),
      {.overwrite = true, .average = attrs.scale_grad_by_freq});
}

}  // namespace mezzo::op
