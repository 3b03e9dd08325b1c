// Shape rules, gradients and public functions of the ops in unfold.h.
#include "unfold.h"

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

namespace {

std::string text(const UnfoldAttrs::Pair& pair) { return str("[", pair[0], ",", pair[1], "]"); }

void require_at_least(const char* op, const char* what, const UnfoldAttrs::Pair& pair,
                      std::int64_t least) {
  if (pair[0] < least || pair[1] < least)
    fail<ValueError>(op, {.what = str(what, " is out of range"),
                          .got = text(pair),
                          .expected = str("at least ", least)});
}

void require_attrs(const char* op, const UnfoldAttrs& attrs) {
  require_at_least(op, "kernel", attrs.kernel, 1);
  require_at_least(op, "dilation", attrs.dilation, 1);
  require_at_least(op, "padding", attrs.padding, 0);
  require_at_least(op, "stride", attrs.stride, 1);
}

void require_a_block(const char* op, const UnfoldAttrs& attrs) {
  if (attrs.blocks(0) < 1 || attrs.blocks(1) < 1)
    fail<ShapeError>(
        op, {.what = "no block fits the padded image",
             .got = str("kernel ", text(attrs.kernel), " with dilation ", text(attrs.dilation),
                        " on ", text(attrs.sizes), " padded by ", text(attrs.padding)),
             .expected = "at least one block"});
}

}  // namespace

OutSpecs Unfold::infer(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_attrs("unfold", attrs);
  const int lead = x.dim() - 3;
  if (lead != 0 && lead != 1)
    fail<ShapeError>("unfold",
                     {.what = "wrong number of dimensions",
                      .got = str(x),
                      .expected = "[n,c,h,w] or [c,h,w]",
                      .hint = "the windows of one dimension are x.unfold(dim, size, step)"});
  require_a_block("unfold", attrs);
  Shape shape;
  if (lead == 1) shape.push_back(x.shape()[0]);
  shape.push_back(checked_product({x.shape()[lead], attrs.kernel[0], attrs.kernel[1]}, "unfold"));
  shape.push_back(checked_product({attrs.blocks(0), attrs.blocks(1)}, "unfold"));
  return {{shape, x.dtype()}};
}

OutSpecs Fold::infer(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_attrs("fold", attrs);
  require_at_least("fold", "output size", attrs.sizes, 1);
  require_a_block("fold", attrs);
  const int lead = x.dim() - 2;
  const std::int64_t columns = checked_product({attrs.blocks(0), attrs.blocks(1)}, "fold");
  const bool fits = (lead == 0 || lead == 1) && x.shape()[lead] % attrs.places() == 0 &&
                    x.shape()[lead + 1] == columns;
  if (!fits)
    fail<ShapeError>("fold", {.what = "the columns do not fit the blocks",
                              .got = str(x),
                              .expected = str("[n,c*", attrs.places(), ",", columns, "] or [c*",
                                              attrs.places(), ",", columns, "]")});
  Shape shape;
  if (lead == 1) shape.push_back(x.shape()[0]);
  for (const std::int64_t size : {x.shape()[lead] / attrs.places(), attrs.sizes[0], attrs.sizes[1]})
    shape.push_back(size);
  return {{shape, x.dtype()}};
}

std::span<OpInfo* const> unfold_ops() { return infos_of(UnfoldOps{}); }

// The gradients of unfold and fold, which are each other's adjoints.

Grads Unfold::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Fold>(saved.attrs<Unfold>(), gy[0])};
}

Grads Fold::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Unfold>(saved.attrs<Fold>(), gy[0])};
}

}  // namespace mezzo::op

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
