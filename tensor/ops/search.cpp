// Shape rule of searchsorted.
#include "search.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

OutSpecs Searchsorted::infer(Inputs in, const Attrs&) {
  const Tensor &sorted = in[0], &values = in[1];
  if (sorted.dim() == 0)
    fail<ShapeError>("searchsorted", {.what = "the sorted sequence has no dimension",
                                      .got = str(sorted),
                                      .expected = "at least 1 dimension"});
  bool fits = sorted.dim() == 1 || sorted.dim() == values.dim();
  for (int d = 0; fits && d < sorted.dim() - 1; ++d) fits = sorted.shape()[d] == values.shape()[d];
  if (!fits)
    fail<ShapeError>("searchsorted",
                     {.what = "sequences and values do not fit each other",
                      .got = str(in),
                      .expected = "one sequence, or equal sizes except in the last dimension"});
  return {{values.shape(), DType::i64}};
}

SearchPlan search_plan(Inputs in) {
  const DType dtype = promoted_dtype(in);
  SearchPlan plan{.length = in[0].shape().back(),
                  .values_per_line = in[1].numel(),
                  .compute = compute_dtype(dtype),
                  .sorted = in[0].detach().to(dtype).contiguous(),
                  .values = in[1].detach().to(in[0].device()).to(dtype).contiguous()};
  if (in[0].dim() > 1) plan.values_per_line = in[1].shape().back();
  return plan;
}

std::span<OpInfo* const> search_ops() { return infos_of(SearchOps{}); }

}  // namespace mezzo::op
