// Recording: adds an op's outputs to the graph, for views and in-place writes too. Called by
// dispatch.
#include "../tensor/core/dispatch.h"
#include "../tensor/ops/shape/view.h"
#include "../tensor/text/text.h"
#include "op_node.h"
#include "view_write.h"

namespace mezzo {

void remember_view(const Tensor& base, const Tensor& view) {
  GradState& state = grad_state(view);
  const GradState* base_state = find_grad_state(base);
  state.view_base = base_state && base_state->view_base.defined() ? base_state->view_base : base;
  state.view_version = view.version();
}

void record(const OpInfo& info, Inputs in, Outputs out, const void* attrs) {
  for (const Tensor& x : in)
    if (x.defined()) refresh_view_edge(x);
  Ref<OpNode> node = make_ref<OpNode>(info, in, out, attrs);
  const GradState* written = find_grad_state(out[0]);
  // Before recording, only the output of an in-place write can be a view.
  const bool through_view = written && written->view_base.defined();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!is_floating(out[i].dtype())) continue;
    if (through_view)
      write_through_view(out[i], node);
    else
      set_grad_fn(out[i], node, static_cast<std::uint32_t>(i));
  }
}

namespace {

/** A tensor's position in the graph. restore() does not allocate memory. */
struct GraphPosition {
  Tensor tensor;
  Ref<Node> grad_fn = {};
  std::uint32_t output = 0, view_version = 0;
  bool requires_grad = false;

  explicit GraphPosition(const Tensor& x) : tensor(x) {
    if (!x.defined()) return;
    requires_grad = x.requires_grad();
    const GradState& state = grad_state(x);
    grad_fn = state.grad_fn;
    output = state.output;
    view_version = state.view_version;
  }

  void restore() {
    if (!tensor.defined()) return;
    tensor.impl()->requires_grad = requires_grad;
    GradState& state = *find_grad_state(tensor);
    state.grad_fn = std::move(grad_fn);
    state.output = output;
    state.view_version = view_version;
  }
};

}  // namespace

void recorded_write(const OpInfo& info, Inputs in, Tensor& self, const void* attrs,
                    void (*write)(void* data), void* data) {
  GraphPosition own(self), base(grad_state(self).view_base);
  Storage& storage = *self.impl()->storage;
  storage.bump_version();  // saved results have the version after the write
  try {
    record(info, in, {&self, 1}, attrs);
    write(data);
  } catch (...) {
    own.restore();
    base.restore();
    storage.take_back_version();
    throw;
  }
}

Tensor begin_in_place(const OpInfo& info, const Tensor& self) {
  const std::string op = str(info.traits.name, "_");
  const GradState* state = find_grad_state(self);
  const bool is_view = state && state->view_base.defined();
  if (self.requires_grad() && self.is_leaf())
    fail<StateError>(
        op,
        {.what =
             "a leaf that requires a gradient cannot be overwritten while gradients are recorded",
         .got = str(self),
         .hint = "use NoGrad, or the out-of-place form"});
  if (is_view && state->view_base.requires_grad() && state->view_base.is_leaf())
    fail<StateError>(op, {.what = "a view of a leaf that requires a gradient cannot be overwritten "
                                  "while gradients are recorded",
                          .got = str(self),
                          .hint = "use NoGrad, or the out-of-place form"});
  refresh_view_edge(self);
  Tensor before = alias(self, self.shape(), self.strides(), self.impl()->offset);
  bool saved = false;
  for (const Needs needs : info.traits.needs) saved = saved || needs.has(input(0));
  if (saved) {
    const NoGradNoCasts plain_ops;
    before = self.clone();
  }
  before.impl()->is_scalar = self.impl()->is_scalar;
  if (self.requires_grad()) set_grad_fn(before, state->grad_fn, state->output);
  return before;
}

}  // namespace mezzo
