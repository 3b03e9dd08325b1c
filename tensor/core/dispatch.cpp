#include "dispatch.h"

#include <algorithm>
#include <array>

#include "../device/queues.h"
#include "../ops/shape/copy.h"
#include "../ops/shape/view.h"
#include "../text/log.h"
#include "../text/text.h"
#include "error.h"
#include "late_result.h"

namespace mezzo {

ThreadHooks& thread_hooks() {
  static constinit thread_local ThreadHooks hooks;
  return hooks;
}

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::match: return "match";
    case Precision::low: return "low";
    case Precision::f32: return "f32";
    case Precision::promote: return "promote";
    case Precision::banned: break;
  }
  return "banned";
}

namespace {

bool any_requires_grad(Inputs in) {
  for (const Tensor& x : in)
    if (x.defined() && x.requires_grad()) return true;
  return false;
}

[[noreturn]] void refuse_devices(const OpInfo& info, const Tensor& a, const Tensor& b) {
  fail<DeviceError>(ApiScope::outermost(info.traits.name),
                    {.what = "operands are on different devices",
                     .got = str(a) + " and " + str(b),
                     .expected = "one device",
                     .hint = "use x.to(device)"});
}

/** Returns the common device of all operands. 0-dim CPU tensors may be combined with any device,
 *  unless they are overwritten (`self`). */
Device common_device(const OpInfo& info, Inputs in, const Tensor* self = nullptr) {
  if (info.traits.crosses_devices) return in[0].device();
  const Tensor* anchor = nullptr;
  for (const Tensor& x : in) {
    if (!x.defined()) continue;
    if (!anchor) anchor = &x;
    if (x.device() == anchor->device()) continue;
    if (x.device() == cpu && x.dim() == 0) continue;
    if (anchor->device() == cpu && anchor->dim() == 0)
      anchor = &x;
    else
      refuse_devices(info, *anchor, x);
  }
  if (self && anchor && !(anchor->device() == self->device())) refuse_devices(info, *self, *anchor);
  return anchor ? anchor->device() : cpu;
}

KernelFn kernel_for(const OpInfo& info, Device device) {
  const KernelFn kernel = info.kernel[static_cast<std::size_t>(device.kind)];
  if (!kernel)
    fail<Unsupported>(info.traits.name,
                      {.what = str("no ", device.kind == DeviceKind::cuda ? "CUDA" : "CPU",
                                   " kernel in this build"),
                       .hint = "configure with -Dcuda=enabled, or move the operands to the CPU"});
  return kernel;
}

void require_operands(const OpInfo& info, Inputs in) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if ((i == 0 || info.elementwise) && !in[i].defined())
      fail<ValueError>(info.traits.name,
                       {.what = str("operand ", i, " is undefined"), .expected = "a tensor"});
}

void run_composite(const OpInfo& info, std::span<Tensor> in, std::span<Tensor> out,
                   const void* attrs) {
  const CastScope off(nullptr);
  std::vector<Tensor> results = info.composite(in, attrs);
  std::move(results.begin(), results.end(), out.begin());
}

/** Moves 0-dim CPU operands to the device of the others; elementwise kernels take them as they
 *  are. */
void move_numbers(const OpInfo& info, std::span<Tensor> in, Device device) {
  if (info.elementwise || info.traits.crosses_devices || device == cpu) return;
  for (Tensor& x : in)
    if (x.defined()) x = x.to(device);
}

/** The operands of a kernel, and the memory format of its results. On a device, results that are
 *  row-major may be late copies of channels-last memory, which later kernels read instead. */
class FormatInside {
 public:
  FormatInside(const OpInfo& info, std::span<Tensor> in, const OutSpec& result, Device device)
      : in_(in) {
    const bool keeps_format = info.traits.channels_last != ChannelsLast::never || result.format;
    if (device.kind == DeviceKind::cpu || !keeps_format || info.traits.crosses_devices) return;
    if (any_is_late(in)) {
      operands_.assign(in.begin(), in.end());
      in_ = operands_;
      is_channels_last_ = take_channels_last(info, in_, result.shape);
    }
    if (result.prefers_channels_last)
      is_channels_last_ = is_channels_last_ || (!current_queue(device) && !needs_single_ops());
  }

  /** Returns the operands for the kernel. */
  Inputs operands() const { return in_; }

  /** Returns whether results are channels-last. */
  bool is_channels_last() const { return is_channels_last_; }

 private:
  std::span<Tensor> in_;
  std::vector<Tensor> operands_;
  bool is_channels_last_ = false;
};

void run_kernel(const OpInfo& info, std::span<Tensor> in, std::span<Tensor> out,
                const void* attrs) {
  const OutSpecs specs = info.infer(info, in, attrs);
  const Device device = common_device(info, in);
  const KernelFn kernel = kernel_for(info, device);
  move_numbers(info, in, device);
  const FormatInside inside(info, in, specs.items[0], device);
  std::array<bool, OutSpecs::kMax> is_copy{};  // results that are row-major copies
  for (std::size_t i = 0; i < static_cast<std::size_t>(specs.count); ++i) {
    const OutSpec& spec = specs.items[i];
    MemoryFormat format =
        spec.format ? *spec.format : kept_format(info.traits.channels_last, in, spec.shape);
    if (inside.is_channels_last() && format == MemoryFormat::contiguous &&
        may_be_channels_last(spec.shape.rank())) {
      format = MemoryFormat::channels_last;
      is_copy[i] = true;
    }
    out[i] =
        empty_tensor(spec.shape, spec.dtype, spec.device.value_or(device), spec.pinned, format);
  }
  kernel(info, inside.operands(), out, attrs);
  for (std::size_t i = 0; i < is_copy.size(); ++i)
    if (is_copy[i]) out[i] = late_row_major(out[i]);
}

/** Runs a kernel that overwrites `self`, or the channels-last memory that it is a late copy of. */
void run_kernel_in_place(KernelFn kernel, const OpInfo& info, Inputs in, Tensor& self,
                         const void* attrs) {
  if (info.elementwise && self.impl()->storage->is_late()) {
    std::vector<Tensor> operands(in.begin(), in.end());
    operands.push_back(self);
    if (take_channels_last(info, operands, self.shape()))
      return kernel(info, Inputs(operands).first(in.size()), {&operands.back(), 1}, attrs);
  }
  kernel(info, in, {&self, 1}, attrs);
}

/** A scope that calls enter_forward and leave_forward of the trace hook, if there is one. */
class TraceScope {
 public:
  TraceScope(TraceHook* hook, const OpInfo& info) : hook_(hook), info_(info) {
    if (hook_) hook_->enter_forward(info_);
  }
  ~TraceScope() {
    if (hook_) hook_->leave_forward(info_);
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceHook* hook_;
  const OpInfo& info_;
};

/** Returns the name that errors inside the op report; empty for internal ops, so that the calling
 *  op's name is used. */
std::string_view name_for_errors(const OpInfo& info) {
  return info.traits.internal ? std::string_view() : info.traits.name;
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.shape() == b.shape() && a.strides() == b.strides();
}

/** Returns true if a gradient that will be recorded is computed from the current value of operand
 *  i. */
bool is_saved(const OpInfo& info, Inputs in, std::size_t i) {
  const Needs operand = input(static_cast<int>(i));
  for (std::size_t j = 0; j < in.size(); ++j)
    if (in[j].defined() && in[j].requires_grad() && info.traits.needs[j].has(operand)) return true;
  return false;
}

/** Replaces operands that share memory with `self`, which is about to be overwritten, by copies. An
 *  elementwise op may read the same view in place, because it reads each element before it writes
 *  it. Operands that a gradient is computed from are copied in that case too, since backward needs
 *  their old values. */
void copy_overlapping_operands(const OpInfo& info, std::span<Tensor> in, const Tensor& self,
                               bool recording) {
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (!in[i].defined() || in[i].impl()->storage != self.impl()->storage) continue;
    const bool stays =
        info.elementwise && same_view(in[i], self) && !(recording && is_saved(info, in, i));
    if (!stays) in[i] = in[i].clone();
  }
}

void check_in_place(const OpInfo& info, const Tensor& self, const OutSpec& result) {
  const std::string op = str(info.traits.name, "_");
  if (!(result.shape == self.shape()))
    fail<ShapeError>(op, {.what = "the result does not fit the tensor it would overwrite",
                          .got = str("a result of shape ", result.shape, " for ", self),
                          .expected = "the same shape",
                          .hint = str("use ", info.traits.name, "(...)")});
  const bool into_integers = is_floating(result.dtype) && !is_floating(self.dtype());
  if (into_integers)
    fail<DtypeError>(op, {.what = "a floating result cannot be stored in an integer tensor",
                          .got = str(self),
                          .expected = "a floating tensor",
                          .hint = str("use ", info.traits.name, "(...)")});
  if (!same_dense_layout(self, self) && op::overlaps_itself(self.shape(), self.strides()))
    fail<ValueError>(op, {.what = "several elements of the tensor share one place in memory",
                          .got = str(self, " with strides ", self.strides()),
                          .hint = "use x.clone() first"});
}

void run_op(const OpInfo& info, std::span<Tensor> in, std::span<Tensor> out, const void* attrs) {
  ThreadHooks& hooks = thread_hooks();
  const TraceScope trace_scope(hooks.trace, info);
  const ApiScope api_scope(name_for_errors(info));
  require_operands(info, in);
  if (hooks.cast) hooks.cast->cast(info, in, false);
  if (info.composite) {
    run_composite(info, in, out, attrs);
  } else {
    if (info.view)
      out[0] = info.view(in[0], attrs);
    else
      run_kernel(info, in, out, attrs);
    if (hooks.grad_enabled && info.traits.differentiable && any_requires_grad(in))
      record(info, in, out, attrs);
    if (hooks.grad_enabled && info.view) remember_view(in[0], out[0]);
  }
  if (hooks.trace) hooks.trace->trace(info, in, out);
}

void run_op_in_place(const OpInfo& info, std::span<Tensor> in, const void* attrs) {
  ThreadHooks& hooks = thread_hooks();
  const TraceScope trace_scope(hooks.trace, info);
  const ApiScope api_scope(name_for_errors(info));
  require_operands(info, in);
  Tensor self = in[0];
  if (hooks.cast) hooks.cast->cast(info, in, true);
  const OutSpecs specs = info.infer(info, in, attrs);
  check_in_place(info, self, specs.items[0]);
  const Device device = common_device(info, in, &self);
  const KernelFn kernel = kernel_for(info, device);
  move_numbers(info, in, device);
  // A non-differentiable op produces constants, so the graph records it as a fill.
  const bool constant = !info.traits.differentiable;
  const bool recording =
      hooks.grad_enabled && (constant ? self.requires_grad() : any_requires_grad(in));
  copy_overlapping_operands(info, in, self, recording);
  if (recording) {
    in[0] = begin_in_place(info, self);
    auto write = [&] { run_kernel_in_place(kernel, info, in, self, attrs); };
    const auto call = [](void* data) { (*static_cast<decltype(write)*>(data))(); };
    constexpr op::Fill::Attrs filled;
    if (constant)
      recorded_write(mezzo::op_info<op::Fill>, in.first(1), self, &filled, call, &write);
    else
      recorded_write(info, in, self, attrs, call, &write);
  } else {
    run_kernel_in_place(kernel, info, in, self, attrs);
    self.impl()->storage->bump_version();
  }
  if (hooks.trace) hooks.trace->trace(info, in, {&self, 1});
}

}  // namespace

void run(const OpInfo& info, std::span<Tensor> in, std::span<Tensor> out, const void* attrs) {
  or_out_of_memory(info.traits.name, [&] { run_op(info, in, out, attrs); });
}

void run_list(const OpInfo& info, std::span<const Tensor> in, std::span<Tensor> out,
              const void* attrs) {
  std::vector<Tensor> copy(in.begin(), in.end());
  run(info, copy, out, attrs);
}

void run_in_place(const OpInfo& info, std::span<Tensor> in, const void* attrs) {
  or_out_of_memory(info.traits.name, [&] { run_op_in_place(info, in, attrs); });
}

// ---- layout of results --------------------------------------------------------------------------

MemoryFormat kept_format(ChannelsLast rule, Inputs in, const Shape& shape) {
  if (rule == ChannelsLast::never || !may_be_channels_last(shape.rank()))
    return MemoryFormat::contiguous;
  if (rule == ChannelsLast::like_full) {
    for (const Tensor& x : in)
      if (x.defined() && x.shape() == shape)
        return x.is_contiguous() ? MemoryFormat::contiguous : x.memory_format();
    return MemoryFormat::contiguous;
  }
  for (const Tensor& x :
       in.first(std::min<std::size_t>(in.size(), rule == ChannelsLast::like_first ? 1 : 2)))
    if (x.defined() && x.dim() == shape.rank() && x.memory_format() == MemoryFormat::channels_last)
      return MemoryFormat::channels_last;
  return MemoryFormat::contiguous;
}

// ---- promotion and the elementwise shape rule ---------------------------------------------------

namespace {

int promotion_rank(DType t) { return is_floating(t) ? 2 : is_integer(t) ? 1 : 0; }

/** Returns the dtype an operand contributes to promotion. A C++ number contributes a category and
 *  no width: floating numbers count as f32. */
DType dtype_of_operand(const Tensor& x) {
  if (!x.impl()->is_scalar) return x.dtype();
  return is_floating(x.dtype()) ? DType::f32 : x.dtype();
}

}  // namespace

DType promoted_dtype(Inputs in) {
  int top = -1;
  for (const Tensor& x : in)
    if (x.defined()) top = std::max(top, promotion_rank(x.dtype()));
  // Within the highest category, dimensioned tensors outrank 0-dim tensors, which outrank C++
  // numbers.
  int best_rank = -1;
  DType best = DType::f32;
  for (const Tensor& x : in) {
    if (!x.defined() || promotion_rank(x.dtype()) != top) continue;
    const int rank = x.impl()->is_scalar ? 0 : x.dim() == 0 ? 1 : 2;
    if (rank < best_rank) continue;
    best = rank > best_rank ? dtype_of_operand(x) : promote(best, dtype_of_operand(x));
    best_rank = rank;
  }
  return best;
}

namespace {

/** Returns the shape that `shape` and the next operand's shape broadcast to. Errors: ShapeError
 *  that names all operands. */
Shape broadcast_with(const Shape& shape, const Shape& next, const OpInfo& info, Inputs in) {
  const int common = std::min(shape.rank(), next.rank());
  for (int i = 1; i <= common; ++i) {
    const std::int64_t a = shape[shape.rank() - i], b = next[next.rank() - i];
    if (a != b && a != 1 && b != 1)
      fail<ShapeError>(info.traits.name, {.what = "shapes do not broadcast",
                                          .got = str(in),
                                          .expected = str("equal sizes or 1 in dimension ", -i),
                                          .hint = "use x.unsqueeze(dim) or x.view(shape)"});
  }
  return broadcast_shapes(shape, next, info.traits.name.data());
}

}  // namespace

// MZ_API: ops of users construct it.
MZ_API OutSpecs::OutSpecs(std::initializer_list<OutSpec> specs) {
  if (specs.size() > kMax)
    fail<ValueError>(
        "OutSpecs",
        {.what = "too many outputs", .got = str(specs.size()), .expected = str("at most ", kMax)});
  for (const OutSpec& spec : specs) items[count++] = spec;
}

Inputs without_mask(const OpTraits& traits, Inputs in) {
  if (traits.mask == MaskOperand::none) return in;
  return in.subspan(traits.mask == MaskOperand::first ? 1 : 0, in.size() - 1);
}

OutSpecs infer_elementwise(const OpInfo& info, Inputs in, const void*) {
  const OpTraits& traits = info.traits;
  const Inputs valued = without_mask(traits, in);
  if (valued.size() < in.size()) {
    const Tensor& mask = traits.mask == MaskOperand::first ? in.front() : in.back();
    if (mask.dtype() != DType::boolean)
      fail<DtypeError>(traits.name, {.what = "the mask must be bool",
                                     .got = str(mask),
                                     .expected = "bool",
                                     .hint = "use mask != 0"});
  }
  DType dtype = promoted_dtype(valued);
  if (!is_floating(dtype)) {
    const bool refused =
        traits.integers == Integers::reject ||
        (dtype == DType::boolean && traits.integers == Integers::keep && !traits.booleans);
    if (refused)
      fail<DtypeError>(traits.name,
                       {.what = str("not defined for ", dtype),
                        .got = str(valued),
                        .expected = dtype == DType::boolean ? "numbers" : "a floating dtype",
                        .hint = "use x.to(f32)"});
    if (traits.integers == Integers::to_float) dtype = DType::f32;
  } else if (traits.integers == Integers::only) {
    fail<DtypeError>(traits.name, {.what = str("not defined for ", dtype),
                                   .got = str(valued),
                                   .expected = "integers or bool"});
  }
  Shape shape = in[0].shape();
  for (const Tensor& x : in.subspan(1))
    if (x.defined() && !(x.shape() == shape)) shape = broadcast_with(shape, x.shape(), info, in);
  return {{shape, traits.result == ResultType::truth ? DType::boolean : dtype}};
}

NestedTrace::~NestedTrace() {
  if (!observes_) return;
  TraceHook*& innermost = thread_hooks().trace;
  if (innermost == this) {
    innermost = outer_;
    return;
  }
  log_text(Severity::error, out_of_order_);
  for (auto* inner = dynamic_cast<NestedTrace*>(innermost); inner;
       inner = dynamic_cast<NestedTrace*>(inner->outer_))
    if (inner->outer_ == this) inner->outer_ = outer_;
}

}  // namespace mezzo
