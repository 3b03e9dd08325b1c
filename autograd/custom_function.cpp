#include "custom_function.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "../tensor/text/log.h"
#include "../tensor/text/text.h"

namespace mezzo {

namespace {

/** Kept::output of a floating-point tensor that is neither an argument nor a result. */
constexpr int kIntermediate = -2;

/** Says once for each function that the graph of a second derivative lacks a saved tensor. */
void warn_of_constant(const std::string& name, const Tensor& x) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  {
    const std::lock_guard lock(mutex);
    if (!warned.insert(name).second) return;
  }
  log_text(Severity::warning,
           str(name,
               " backward: create_graph takes a saved tensor for a constant, since it is "
               "neither an argument nor a result; got ",
               x,
               "; if it depends on an argument, second derivatives are wrong: save the argument, "
               "and compute it again in backward"));
}

}  // namespace

void FunctionContext::save_for_backward(std::vector<Tensor> tensors) {
  for (Tensor& x : tensors) {
    const std::uint32_t version = x.defined() ? x.version() : 0;
    kept_.push_back({std::move(x), version, -1});
  }
}

void FunctionContext::refuse_freed() const {
  fail<StateError>(name + " backward", {.what = "the graph was freed by an earlier backward",
                                        .hint = "pass retain_graph = true to the earlier call"});
}

std::vector<Tensor> FunctionContext::saved() const {
  if (freed_) refuse_freed();
  std::vector<Tensor> tensors;
  for (const Kept& k : kept_) {
    if (k.tensor.defined() && k.tensor.version() != k.version)
      fail<StateError>(name, {.what = "a tensor needed for backward was modified in place",
                              .got = str(k.tensor, " at version ", k.tensor.version()),
                              .expected = str("version ", k.version),
                              .hint = "use the out-of-place form"});
    tensors.push_back(k.tensor);
    if (k.output == kIntermediate && grad_enabled()) warn_of_constant(name, k.tensor);
    if (k.output < 0) continue;
    tensors.back() = k.tensor.detach();
    if (grad_enabled())
      set_grad_fn(tensors.back(), Ref<Node>(node_), static_cast<std::uint32_t>(k.output));
  }
  return tensors;
}

/** Of the Tensor arguments, in order. */
struct FunctionNodeBase::Operands {
  std::vector<TensorMeta> meta;
  std::vector<const TensorImpl*> arguments = {};  // to compare only, until attach() returns
};

FunctionNodeBase::FunctionNodeBase(std::string name, const std::vector<Tensor>& operands)
    : operands_(new Operands) {
  context.name = std::move(name);
  context.node_ = this;
  for (const Tensor& x : operands) {
    follow(grad_enabled() ? gradient_edge(x) : Edge{});
    context.wanted.push_back(static_cast<bool>(next().back()));
    operands_->meta.push_back(x.defined() ? TensorMeta{x.shape(), x.dtype(), x.device()}
                                          : TensorMeta{});
    operands_->arguments.push_back(x.impl());
  }
}

FunctionNodeBase::~FunctionNodeBase() = default;

void FunctionNodeBase::release_saved() {
  if (context.attachment) {
    context.attachment.reset();
    context.attachment_freed_ = true;
  }
  if (context.kept_.empty()) return;
  context.kept_.clear();
  context.freed_ = true;
}

void FunctionNodeBase::require_attachment() const {
  if (context.attachment_freed_) context.refuse_freed();
}

void FunctionNodeBase::attach(const Ref<FunctionNodeBase>& node, std::vector<Tensor>& results) {
  bool any = false;
  for (const bool wanted : node->context.wanted) any = any || wanted;
  if (!any) return;
  node->num_outputs = static_cast<std::uint32_t>(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    // A saved result is saved detached: with its position in the graph it would own this node.
    for (FunctionContext::Kept& k : node->context.kept_)
      if (k.tensor.is_same(results[i])) k = {results[i].detach(), k.version, static_cast<int>(i)};
    // forward may return an argument itself; the result must be a separate tensor in the graph.
    if (results[i].requires_grad()) results[i] = results[i].detach();
    set_grad_fn(results[i], node, static_cast<std::uint32_t>(i));
  }
  const auto& arguments = node->operands_->arguments;
  for (FunctionContext::Kept& k : node->context.kept_)
    if (k.output < 0 && k.tensor.defined() && is_floating(k.tensor.dtype()) &&
        std::find(arguments.begin(), arguments.end(), k.tensor.impl()) == arguments.end())
      k.output = kIntermediate;
}

Grads FunctionNodeBase::checked(Grads gradients) const {
  const std::vector<TensorMeta>& meta = operands_->meta;
  if (gradients.size() != meta.size())
    fail<ValueError>(context.name + " backward",
                     {.what = "wrong number of gradients",
                      .got = str(gradients.size()),
                      .expected = str(meta.size(), ", one per Tensor argument")});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& g = gradients[i];
    if (!g.defined()) continue;
    if (!(g.shape() == meta[i].shape))
      fail<ShapeError>(context.name + " backward",
                       {.what = str("gradient ", i, " does not fit its argument"),
                        .got = str(g),
                        .expected = str(meta[i].shape)});
    if (!(g.device() == meta[i].device))
      fail<DeviceError>(context.name + " backward",
                        {.what = str("gradient ", i, " is on another device than its argument"),
                         .got = str(g),
                         .expected = str(meta[i].device),
                         .hint = "use g.to(device)"});
    g = g.to(meta[i].dtype);
  }
  return gradients;
}

}  // namespace mezzo
