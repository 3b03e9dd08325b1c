#include "view_write.h"

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/shape/copy.h"
#include "../tensor/ops/shape/view.h"
#include "op_node.h"

namespace mezzo {

namespace {

/** Returns the attributes of the view as an as_strided of its base. */
op::AsStrided::Attrs geometry_in(const Tensor& base, const Tensor& view) {
  return {view.shape(), view.strides(), view.impl()->offset - base.impl()->offset, base.strides()};
}

/** The node of a base after a write through a view. The gradient of the written elements goes
 *  through the write, that of the others to the old base. */
class ViewWriteNode final : public Node {
 public:
  ViewWriteNode(const Tensor& base, const Tensor& view, Ref<Node> write)
      : geometry_(geometry_in(base, view)), write_(std::move(write)) {
    // The write's first operand was the view. Its gradient goes to the base as a part of the
    // base's gradient.
    follow(gradient_edge(base));
    for (std::size_t i = 1; i < write_->next().size(); ++i) follow(write_->next()[i]);
  }

  Grads apply(Grads gy) override {
    if (!gy[0].defined()) return Grads(next().size());
    // Uses recorded ops, an in-place write through a view among them, so that it is differentiable
    // as often as the write itself. g is made row-major like the base, because the view's strides
    // refer to the base.
    Tensor g = apply_with<op::Clone>({MemoryFormat::contiguous}, gy[0]);
    const Tensor under_view = apply_with<op::AsStrided>(geometry_, g);
    Grads through = write_->apply({under_view.clone()});
    if (through[0].defined())
      under_view.copy_(through[0]);
    else
      under_view.zero_();
    through[0] = g;
    return through;
  }
  void release_saved() override { write_->release_saved(); }
  std::string name() const override { return write_->name() + "_ on a view"; }

 private:
  op::AsStrided::Attrs geometry_;
  Ref<Node> write_;
};

/** Makes the view's graph edge that of a new as_strided of its base. */
void derive_edge_from_base(const Tensor& view, GradState& state) {
  const Tensor base = state.view_base;
  const op::AsStrided::Attrs attrs = geometry_in(base, view);
  Tensor in[] = {base};
  Tensor out[] = {view};
  set_grad_fn(view, make_ref<OpNode>(op_info<op::AsStrided>, Inputs(in), Outputs(out), &attrs), 0);
  state.view_version = view.version();
}

}  // namespace

void refresh_view_edge(const Tensor& view) {
  GradState* state = find_grad_state(view);
  if (!state || !state->view_base.defined() || state->view_version == view.version()) return;
  if (state->view_base.requires_grad()) derive_edge_from_base(view, *state);
}

void write_through_view(const Tensor& view, const Ref<Node>& node) {
  GradState& state = grad_state(view);
  const Tensor base = state.view_base;
  if (!base.is_contiguous())
    fail<Unsupported>(node->name() + "_",
                      {.what = "in-place write through a view of a tensor that is not row-major",
                       .got = str(base),
                       .hint = "use x.contiguous() before taking the view"});
  set_grad_fn(base, make_ref<ViewWriteNode>(base, view, node), 0);
  derive_edge_from_base(view, state);
}

}  // namespace mezzo
