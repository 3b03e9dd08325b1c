#include "call_hooks.h"

#include <algorithm>

#include "../tensor/text/text.h"
#include "module.h"

namespace mezzo::nn {

namespace {

/** Throws ValueError if a hook changed the number of tensors. */
void check_count(const char* op, const Module& module, std::size_t got, std::size_t expected) {
  if (got != expected)
    fail<ValueError>(op,
                     {.what = str("a hook of ", module.kind(), " changed the number of tensors"),
                      .got = str(got),
                      .expected = str(expected)});
}

}  // namespace

Tensor detail::TensorsOfCall::cast_in(const Tensor& x) const {
  if (replaces_) return tensors_[next_++];
  tensors_.push_back(x);
  return x;
}

void detail::HookedCall::before(std::span<TensorsOfCall> arguments) {
  for (TensorsOfCall& argument : arguments)
    inputs_.insert(inputs_.end(), argument.tensors_.begin(), argument.tensors_.end());
  const std::size_t count = inputs_.size();
  module_.state().forward_pre_hooks.for_each([&](const ForwardPreHook& hook) {
    hook(module_, inputs_);
    check_count("register_forward_pre_hook", module_, inputs_.size(), count);
  });
  auto next = inputs_.begin();
  for (TensorsOfCall& argument : arguments) {
    const auto end = next + static_cast<std::ptrdiff_t>(argument.tensors_.size());
    std::copy(next, end, argument.tensors_.begin());
    argument.replaces_ = true;
    next = end;
  }
}

void detail::HookedCall::after(TensorsOfCall& result) const {
  const std::size_t count = result.tensors_.size();
  module_.state().forward_hooks.for_each([&](const ForwardHook& hook) {
    hook(module_, inputs_, result.tensors_);
    check_count("register_forward_hook", module_, result.tensors_.size(), count);
  });
  result.replaces_ = true;
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) const {
  return state_->forward_pre_hooks.add(std::move(hook));
}
HookHandle Module::register_forward_hook(ForwardHook hook) const {
  return state_->forward_hooks.add(std::move(hook));
}

}  // namespace mezzo::nn
