// Shape rules of the copying ops, and the Tensor methods that call them.
#include "copy.h"

#include "../backend.h"
#include "../capture.h"
#include "../dispatch.h"
#include "../text.h"

namespace mezzo {

namespace op {

OutSpecs To::infer(Inputs in, const Attrs& attrs) { return {{in[0].shape(), attrs.dtype}}; }

OutSpecs Clone::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

OutSpecs Copy::infer(Inputs in, const Attrs&) {
  if (!is_expandable(in[1].shape(), in[0].shape()))
    fail<ShapeError>("copy_", {.what = "the source does not broadcast to the destination",
                               .got = str(in),
                               .expected = "sizes equal or 1"});
  return {{in[0].shape(), in[0].dtype()}};
}

OutSpecs Fill::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

OutSpecs ToDevice::infer(Inputs in, const Attrs& attrs) {
  return {{in[0].shape(), in[0].dtype(), attrs.device}};
}

void ToDevice::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Device from = in[0].device(), to = attrs.device;
  Capture::refuse_crossing("to", in[0], to);
  const Backend* backend = find_backend(from == mezzo::cpu ? to.kind : from.kind);
  const Tensor source = in[0].detach().contiguous();
  const auto bytes = static_cast<std::size_t>(source.numel()) * item_size(source.dtype());
  if (bytes > 0) backend->copy(source.raw_data(), from, out[0].raw_data(), to, bytes);
}

}  // namespace op

Tensor Tensor::to(DType dtype) const {
  if (dtype == this->dtype()) return *this;
  return apply_with<op::To>({dtype}, *this);
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor moved = apply_with<op::ToDevice>({device}, *this);
  moved.impl()->is_scalar = self().is_scalar;
  return moved;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const { return apply<op::Clone>(*this); }

const Tensor& Tensor::fill_(double value) const { return apply_in_place<op::Fill>({value}, *this); }

const Tensor& Tensor::copy_(const Tensor& source) const {
  return apply_in_place<op::Copy>({}, *this, source.defined() ? source.to(device()) : source);
}

}  // namespace mezzo
