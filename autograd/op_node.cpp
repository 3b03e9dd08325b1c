#include "op_node.h"

#include <new>

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/elementwise/pointwise.h"
#include "../tensor/ops/index/embedding.h"
#include "../tensor/ops/index/index.h"
#include "../tensor/ops/norm/batch_norm.h"
#include "../tensor/ops/norm/layer_norm.h"
#include "../tensor/ops/reduce/reduce.h"
#include "../tensor/ops/shape/copy.h"
#include "../tensor/ops/shape/view.h"
#include "../tensor/text/text.h"
#include "recompute.h"

namespace mezzo {

SavedAttrs::SavedAttrs(const AttrsFacts& facts, const void* attrs) : facts_(facts) {
  address_ = facts.bytes <= kInline
                 ? static_cast<void*>(inline_)
                 : ::operator new(facts.bytes, std::align_val_t(facts.alignment));
  facts.copy(attrs, address_);
}

SavedAttrs::~SavedAttrs() {
  facts_.destroy(address_);
  if (address_ != inline_) ::operator delete(address_, std::align_val_t(facts_.alignment));
}

namespace {

/** Returns the union of what the wanted gradients are computed from. */
Needs needs_of(const OpInfo& info, std::span<const bool> wanted) {
  Needs needs;
  for (std::size_t i = 0; i < wanted.size() && i < info.traits.needs.size(); ++i)
    if (wanted[i]) needs = needs | info.traits.needs[i];
  return needs;
}

/** Promotes the saved inputs of ops that promote their operands, because their gradients have the
 *  promoted dtype. Otherwise a product with a 0-dim gradient would have the narrower dtype of the
 *  input. Elementwise ops promote in their kernels. */
void promote_inputs(const OpInfo& info, const Grads& gy, std::span<Tensor> inputs) {
  if (info.traits.precision != Precision::promote || info.elementwise || !gy[0].defined()) return;
  for (Tensor& x : inputs)
    if (x.defined() && is_floating(x.dtype())) x = x.to(promote(x.dtype(), gy[0].dtype()));
}

}  // namespace

OpNode::OpNode(const OpInfo& info, Inputs in, Outputs out, const void* attrs)
    : info_(info),
      attrs_(info.attrs, attrs),
      wanted_(std::make_unique<bool[]>(in.size())),
      module_path_(current_module_path()) {
  num_outputs = static_cast<std::uint32_t>(out.size());
  reserve_next(in.size());
  metas_.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    follow(gradient_edge(in[i]));
    wanted_[i] = static_cast<bool>(next().back());
    metas_.push_back(in[i].defined() ? TensorMeta{.shape = in[i].shape(),
                                                  .dtype = in[i].dtype(),
                                                  .device = in[i].device(),
                                                  .format = in[i].memory_format()}
                                     : TensorMeta{});
  }
  const Needs needs = needs_of(info, {wanted_.get(), in.size()});
  if (needs.bits == 0) return;
  inputs_.resize(in.size());
  outputs_.resize(out.size());
  for (std::size_t i = 0; i < in.size() && i < 8; ++i)
    if (in[i].defined() && needs.has(input(static_cast<int>(i)))) inputs_[i] = save(in[i]);
  // Outputs are saved detached: with their position in the graph they would own this node.
  for (std::size_t i = 0; i < out.size(); ++i)
    if (needs.has(output(static_cast<int>(i)))) outputs_[i] = save(out[i].detach());
}

OpNode::~OpNode() = default;

/** Ignores wider dtypes, in which the gradient would have more digits than the operand's dtype,
 *  unless the rule rounds it first. */
void OpNode::prefer_gradient(std::size_t operand, DType dtype) {
  const DType own = metas_[operand].dtype;
  const bool rounds_first =
      info_.traits.widens_weight_gradient && operand == 1 && is_low(own) && dtype == DType::f32;
  if (item_size(dtype) >= item_size(own) && !rounds_first) return;
  metas_[operand].gradient = dtype;
  has_preferences_ = true;
}

void OpNode::clear_preferences() {
  if (!has_preferences_) return;
  has_preferences_ = false;
  for (TensorMeta& meta : metas_) meta.gradient = meta.dtype;
}

std::optional<DType> OpNode::converts_to() const {
  if (&info_ != &op_info<op::To>) return std::nullopt;
  return metas_[0].dtype;
}

bool OpNode::only_reshapes() const { return &info_ == &op_info<op::View>; }

/** Returns true for norms of rows, whose kernels round the gradient before they add it, as the
 *  engine does. */
bool OpNode::adds_to(const Tensor& rest) const {
  const bool is_norm = &info_ == &op_info<op::LayerNorm> || &info_ == &op_info<op::RmsNorm>;
  if (!is_norm || !rest.defined() || needs_single_ops()) return false;
  const TensorMeta& x = metas_[0];
  return rest.dtype() == x.dtype && x.gradient == x.dtype && rest.shape() == x.shape &&
         rest.device() == x.device;
}

/** Returns true for batch norms with a residual, whose kernels round the sum as the engine does.
 *  Gradients in another layout would be copied first. */
bool OpNode::adds_terms(const Tensor& sum, const Tensor& last) const {
  if (&info_ != &op_info<op::BatchNormRelu> || metas_[6].shape.rank() == 0 || needs_single_ops())
    return false;
  const TensorMeta& x = metas_[0];
  const auto fits = [&](const Tensor& g) {
    return g.defined() && g.dtype() == x.dtype && g.shape() == x.shape && g.device() == x.device &&
           g.is_contiguous(x.format);
  };
  return fits(sum) && fits(last);
}

/** Returns true for a lookup whose gradient index_add computes. */
bool OpNode::is_plain_lookup() const {
  if (&info_ != &op_info<op::Embedding>) return false;
  const auto& attrs = *static_cast<const op::Embedding::Attrs*>(attrs_.address());
  return attrs.padding_idx < 0 && !attrs.scale_grad_by_freq;
}

/** Returns false under a trace hook that reads whole gradients. */
bool OpNode::adds_gradient() const {
  const bool is_part = &info_ == &op_info<op::Diagonal> || &info_ == &op_info<op::Select> ||
                       &info_ == &op_info<op::Slice> || is_plain_lookup();
  return is_part && !needs_single_ops();
}

/** Adds the gradient of a slice to that slice of `sum`, and that of a lookup, on a device, to the
 *  rows of `sum`, with one rounding; elsewhere it is 0. */
bool OpNode::add_gradient(const Grads& gy, const Tensor& sum) {
  const Tensor& g = gy[0];
  if (is_plain_lookup()) {
    const bool fits = sum.dtype() == g.dtype() && sum.shape() == metas_[1].shape;
    if (!fits || sum.device() == cpu || g.numel() == 0) return false;
    const ModulePathScope path(module_path_);
    index_add_(sum, 0, unpack(inputs_[0]).reshape({-1}), g.reshape({-1, g.size(-1)}));
    return true;
  }
  const bool fits = sum.dtype() == g.dtype() || (sum.dtype() == DType::f32 && is_low(g.dtype()));
  if (!fits || !(sum.device() == g.device()) || !(sum.shape() == metas_[0].shape)) return false;
  const ModulePathScope path(module_path_);
  Tensor part = info_.view(sum, attrs_.address());
  add_(part, g);
  return true;
}

SavedTensor OpNode::save(const Tensor& x) {
  RecomputedRegion* region = RecomputedRegion::current();
  if (!region) return {x, x.version()};
  const SavedTensor saved = region->keep(x);
  if (saved.slot != SavedTensor::kHere) region_ = Ref<RecomputedRegion>(region);
  return saved;
}

Tensor OpNode::unpack(const SavedTensor& kept) const {
  const SavedTensor saved = kept.slot == SavedTensor::kHere ? kept : region_->value(kept.slot);
  if (saved.tensor.version() == saved.version) return saved.tensor;
  const ModulePathScope path(module_path_);
  fail<StateError>(info_.traits.name,
                   {.what = "a tensor needed for backward was modified in place",
                    .got = str(saved.tensor, " at version ", saved.tensor.version()),
                    .expected = str("version ", saved.version),
                    .hint = "use the out-of-place form"});
}

std::vector<Tensor> OpNode::unpack_inputs() const {
  std::vector<Tensor> tensors(metas_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].empty()) tensors[i] = unpack(inputs_[i]);
  return tensors;
}

std::vector<Tensor> OpNode::unpack_outputs() {
  std::vector<Tensor> tensors(num_outputs);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].empty()) continue;
    tensors[i] = unpack(outputs_[i]).detach();
    const bool in_graph =
        grad_enabled() && is_floating(tensors[i].dtype());  // masks and indices have no gradient
    if (in_graph) set_grad_fn(tensors[i], Ref<Node>(this), static_cast<std::uint32_t>(i));
  }
  return tensors;
}

void OpNode::fit_to_operands(Grads& gradients) const {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& g = gradients[i];
    if (!g.defined() || !wanted_[i]) {
      g = {};
      continue;
    }
    if (!(g.shape() == metas_[i].shape)) g = sum_to(g, metas_[i].shape);
    if (g.dtype() != metas_[i].gradient) g = g.to(metas_[i].dtype);
    g = g.to(metas_[i].device);
  }
}

Grads OpNode::run_rule(const Saved& saved, const Grads& gy) const {
  Grads gradients = info_.backward(saved, gy);
  gradients.resize(metas_.size());
  fit_to_operands(gradients);
  return gradients;
}

Grads OpNode::run_traced_rule(TraceHook& trace, const Saved& saved, const Grads& gy) const {
  trace.enter_backward(info_);
  Grads gradients;
  try {
    gradients = run_rule(saved, gy);
  } catch (...) {
    trace.leave_backward(info_, gy, {});
    throw;
  }
  trace.leave_backward(info_, gy, gradients);
  return gradients;
}

Grads OpNode::apply(Grads gy) {
  struct ClearsPreferences {
    OpNode& node;
    ~ClearsPreferences() { node.clear_preferences(); }
  } const clears_preferences{*this};
  const ModulePathScope path(module_path_);
  if (released_)
    fail<StateError>(str(info_.traits.name, " backward"),
                     {.what = "the graph was freed by an earlier backward",
                      .hint = "pass retain_graph = true to the earlier call"});
  if (grad_enabled() && !info_.traits.twice_differentiable)
    fail<Unsupported>(info_.traits.name, {.what = "not twice differentiable",
                                          .hint = "run backward without create_graph"});
  bool any = false;
  for (const Tensor& g : gy) any = any || g.defined();
  if (!any) return Grads(metas_.size());
  std::vector<Tensor> inputs = unpack_inputs();
  promote_inputs(info_, gy, inputs);
  const std::vector<Tensor> outputs = unpack_outputs();
  const Saved saved{info_,           inputs, outputs, metas_, {wanted_.get(), metas_.size()},
                    attrs_.address()};
  TraceHook* trace = thread_hooks().trace;
  return trace ? run_traced_rule(*trace, saved, gy) : run_rule(saved, gy);
}

void OpNode::release_saved() {
  // As in PyTorch, a node that saved nothing can run again.
  if (inputs_.empty() && outputs_.empty()) return;
  inputs_.clear();
  outputs_.clear();
  region_.reset();
  released_ = true;
}

}  // namespace mezzo
