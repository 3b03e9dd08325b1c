// Shape rules and gradients of the ops in copy.h.
#include "copy.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/late_result.h"
#include "../../core/registry.h"
#include "../../device/backend.h"
#include "../../device/capture.h"
#include "../../text/text.h"

namespace mezzo {

namespace op {

OutSpecs To::infer(Inputs in, const Attrs& attrs) { return {{in[0].shape(), attrs.dtype}}; }

OutSpecs Clone::infer(Inputs in, const Attrs& attrs) {
  return {{.shape = in[0].shape(), .dtype = in[0].dtype(), .format = attrs.format}};
}

OutSpecs Copy::infer(Inputs in, const Attrs&) {
  if (!is_expandable(in[1].shape(), in[0].shape()))
    fail<ShapeError>("copy_", {.what = "the source does not broadcast to the destination",
                               .got = str(in),
                               .expected = "sizes equal or 1"});
  return {{in[0].shape(), in[0].dtype()}};
}

OutSpecs Fill::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

namespace {

/** Copies the bytes of one tensor to another with the same layout. */
void transfer(std::string_view op, const Tensor& from, const Tensor& to,
              const CopyOptions& options) {
  Capture::refuse_crossing(op, from, to.device());
  const auto bytes = static_cast<std::size_t>(from.numel()) * item_size(from.dtype());
  if (bytes == 0) return;
  if (from.device() == to.device()) {
    std::memcpy(to.raw_data(), from.raw_data(), bytes);
    return;
  }
  const Device owner = from.device() == mezzo::cpu ? to.device() : from.device();
  find_backend(owner.kind)
      ->copy(from.raw_data(), from.device(), to.raw_data(), to.device(), bytes, options);
}

}  // namespace

OutSpecs CopyAcross::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

void CopyAcross::cpu(Inputs in, Outputs out, const Attrs& options) {
  transfer("copy_", in[1], out[0], options);
}

OutSpecs ToDevice::infer(Inputs in, const Attrs& attrs) {
  const bool awaited = !attrs.non_blocking || in[0].device() == mezzo::cpu;
  const bool pinned = attrs.device == mezzo::cpu && (attrs.pinned || !awaited);
  return {{in[0].shape(), in[0].dtype(), attrs.device, pinned}};
}

void ToDevice::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  Capture::refuse_crossing(ApiScope::outermost("to"), in[0], attrs.device);
  transfer("to", in[0].detach().contiguous(out[0].memory_format()), out[0], {attrs.non_blocking});
}

}  // namespace op

Tensor Tensor::to(DType dtype) const {
  if (dtype == this->dtype()) return *this;
  return apply_with<op::To>({dtype}, *this);
}

Tensor Tensor::to(Device device, const CopyOptions& options) const {
  if (device == this->device()) return *this;
  Tensor moved =
      apply_with<op::ToDevice>({.device = device, .non_blocking = options.non_blocking}, *this);
  moved.impl()->is_scalar = self().is_scalar;
  return moved;
}

Tensor Tensor::to(Device device, DType dtype, const CopyOptions& options) const {
  // The smaller of the two dtypes crosses.
  if (item_size(dtype) < item_size(this->dtype())) return to(dtype).to(device, options);
  return to(device, options).to(dtype);
}

Tensor Tensor::pin_memory() const {
  if (is_pinned()) return *this;
  if (!(device() == cpu))
    fail<DeviceError>("pin_memory", {.what = "memory of a device is not pinned",
                                     .got = str(*this),
                                     .expected = "a tensor on the CPU",
                                     .hint = "x.to(cpu, {.non_blocking = true}) is pinned"});
  require_cuda("pin_memory", str(*this));
  return apply_with<op::ToDevice>({.device = cpu, .pinned = true}, *this);
}

namespace {

void require_rank_for(MemoryFormat format, std::string_view op, const Tensor& x) {
  if (format == MemoryFormat::channels_last && !may_be_channels_last(x.dim()))
    fail<ShapeError>(op, {.what = "channels_last needs an image or a volume",
                          .got = str(x),
                          .expected = "4 or 5 dimensions: [N,C,H,W] or [N,C,D,H,W]"});
}

}  // namespace

Tensor Tensor::contiguous(MemoryFormat format) const {
  require_rank_for(format, "contiguous", *this);
  return is_contiguous(format) ? *this : apply_with<op::Clone>({format}, *this);
}

Tensor Tensor::contiguous() const { return contiguous(MemoryFormat::contiguous); }

Tensor Tensor::to(MemoryFormat format) const {
  require_rank_for(format, "to", *this);
  // With sizes of 1 a tensor may match both formats. The strides then decide which format
  // memory_format() reports, so they must match too.
  const bool same_strides = memory_format() == format || strides() == strides_in(format, shape());
  return is_contiguous(format) && same_strides ? *this : apply_with<op::Clone>({format}, *this);
}

Tensor Tensor::clone() const { return apply<op::Clone>(*this); }

const Tensor& Tensor::fill_(double value) const { return apply_in_place<op::Fill>({value}, *this); }

const Tensor& Tensor::copy_(const Tensor& source, const CopyOptions& options) const {
  if (!source.defined() || source.device() == device())
    return apply_in_place<op::Copy>({}, *this, source);
  Capture::refuse_crossing(ApiScope::outermost("copy_"), source, device());
  const bool same_layout = source.dtype() == dtype() && same_dense_layout(source, *this);
  if (same_layout) return apply_in_place<op::CopyAcross>(options, *this, source);
  // A copy from a device to the CPU is blocking, because its elements are read next.
  return apply_in_place<op::Copy>({}, *this,
                                  source.to(device(), device() == cpu ? CopyOptions{} : options));
}

}  // namespace mezzo

namespace mezzo::op {

void convert_to(const Tensor& x, Tensor& y) {
  const OpInfo& info = op_info<To>;
  const To::Attrs attrs{y.dtype()};
  info.kernel[static_cast<std::size_t>(x.device().kind)](info, {&x, 1}, {&y, 1}, &attrs);
}

// ---- late conversions ---------------------------------------------------------------------------

namespace {

/** Returns true if the conversion may wait. The first element has the alignment of an allocation,
 *  so that kernels read it like the result's. */
bool may_wait(const Tensor& x) {
  constexpr std::int64_t kAligned = 64;  // elements
  return is_low(x.dtype()) && x.is_contiguous() && x.memory_format() == MemoryFormat::contiguous &&
         x.numel() > 0 && x.impl()->offset % kAligned == 0 && can_be_late(x);
}

}  // namespace

Tensor late_to_f32(const Tensor& x) {
  if (!may_wait(x)) return x.to(DType::f32);
  return late_result(op_info<To>, {x}, std::make_shared<To::Attrs>(To::Attrs{DType::f32}),
                     {.op = "to",
                      .read = "a 16-bit result is first read as f32",
                      .modified = "a tensor needed for backward was modified in place",
                      .hint = "use the out-of-place form"});
}

Tensor late_source(const Tensor& x) {
  const Tensor source = x.dtype() == DType::f32 ? late_operand(op_info<To>, x) : Tensor{};
  return source.defined() ? source : x;
}

std::span<OpInfo* const> copy_ops() { return infos_of(CopyOps{}); }

// Gradients of the copying ops.

// The engine converts each gradient to its operand's dtype, shape and device, so these return it
// unchanged. On a device, a 16-bit gradient of an f32 operand is converted when it is read.
Grads To::backward(const Saved& saved, const Grads& gy) {
  const bool widens = !grad_enabled() && gy[0].device().kind != DeviceKind::cpu &&
                      is_low(gy[0].dtype()) && saved.input_meta[0].dtype == DType::f32 &&
                      saved.gradient_dtype(0) == DType::f32;
  return {widens ? late_to_f32(gy[0]) : gy[0]};
}

Grads ToDevice::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads CopyAcross::backward(const Saved&, const Grads& gy) { return {Tensor{}, gy[0]}; }

Grads Clone::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads Copy::backward(const Saved&, const Grads& gy) { return {Tensor{}, gy[0]}; }

Grads Fill::backward(const Saved&, const Grads&) { return {Tensor{}}; }

}  // namespace mezzo::op
