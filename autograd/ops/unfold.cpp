#include "unfold.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/unfold.h"

namespace mezzo {

namespace {

op::UnfoldAttrs::Pair pair(const WindowSizes& sizes, const char* op, const char* option) {
  const op::Extent given = sizes.expanded(2, op, option);
  return {given[0], given[1]};
}

op::UnfoldAttrs blocks(const char* op, const WindowSizes& kernel, const UnfoldOptions& options) {
  return {.kernel = pair(kernel, op, "kernel"),
          .dilation = pair(options.dilation, op, "dilation"),
          .padding = pair(options.padding, op, "padding"),
          .stride = pair(options.stride, op, "stride")};
}

}  // namespace

Tensor unfold(const Tensor& x, const WindowSizes& kernel, const UnfoldOptions& options) {
  require_defined("unfold", x);
  op::UnfoldAttrs attrs = blocks("unfold", kernel, options);
  if (x.dim() >= 2) attrs.sizes = {x.size(-2), x.size(-1)};
  return apply_with<op::Unfold>(attrs, x);
}

Tensor fold(const Tensor& x, const WindowSizes& output, const WindowSizes& kernel,
            const UnfoldOptions& options) {
  op::UnfoldAttrs attrs = blocks("fold", kernel, options);
  attrs.sizes = pair(output, "fold", "output size");
  return apply_with<op::Fold>(attrs, x);
}

}  // namespace mezzo
