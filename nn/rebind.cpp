#include "rebind.h"

#include "../autograd/node.h"
#include "../tensor/core/dispatch.h"

namespace mezzo {

namespace {

void check_rebind(const Tensor& leaf, const Tensor& data) {
  if (!leaf.is_leaf())
    fail<StateError>("rebind", {.what = "only the memory of a leaf can be replaced",
                                .got = str(leaf),
                                .expected = "a tensor that no operation made"});
  if (leaf.requires_grad() && !is_floating(data.dtype()))
    fail<DtypeError>("rebind", {.what = "only floating tensors have gradients",
                                .got = str(data),
                                .expected = "a floating dtype",
                                .hint = "freeze the leaf first"});
}

template <class Target> void convert(const Tensor& leaf, Target target) {
  const NoGradNoCasts plain_ops;
  const Tensor data = leaf.detach().to(target);
  const Tensor grad = leaf.grad().defined() ? leaf.grad().detach().to(target) : Tensor{};
  const GradientScale scale =
      written_since_mark(leaf) ? GradientScale::plain : gradient_scale(leaf);
  rebind(leaf, data);
  leaf.set_grad(grad);
  mark_gradient(leaf, scale);
}

}  // namespace

void rebind(const Tensor& leaf, const Tensor& data) {
  check_rebind(leaf, data);
  const Tensor grad = leaf.grad();
  TensorImpl& to = *leaf.impl();
  const TensorImpl& from = *data.impl();
  const Storage& before = *to.storage;
  if (to.storage != from.storage) from.storage->outlive_versions_of(before);
  from.storage->set_category(before.category());
  to.shape = from.shape;
  to.strides = from.strides;
  to.offset = from.offset;
  to.numel = from.numel;
  to.dtype = from.dtype;
  to.contiguous = from.contiguous;
  to.channels_last = from.channels_last;
  to.storage = from.storage;
  if (grad.defined() && !(grad.shape() == leaf.shape() && grad.dtype() == leaf.dtype() &&
                          grad.device() == leaf.device()))
    leaf.set_grad({});
}

void convert_(const Tensor& leaf, DType dtype) {
  if (leaf.dtype() != dtype) convert(leaf, dtype);
}

void convert_(const Tensor& leaf, Device device) {
  if (!(leaf.device() == device)) convert(leaf, device);
}

}  // namespace mezzo
