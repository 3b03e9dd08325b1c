// The emulated cuDNN. It computes on the host and rejects what the library would reject.
#include "dnn.h"

#include <cstring>

#include "cuda.h"
#include "dnn_plan.h"
#include "faults.h"
#include "memory.h"

namespace mezzo::gpu::dnn {

namespace {

using op::Volume;

/** Throws Fault for an invalid call, so that no fallback hides it. */
void require_call(bool holds, const char* what) {
  if (!holds) throw emulator::Fault(std::string("cudnnBackendExecute: bad call: ") + what);
}

/** A host copy of a device array. */
struct HostCopy {
  const void* data;
  Tensor tensor;

  HostCopy(const void* on_device, DType dtype, const Shape& shape, MemoryFormat format)
      : data(on_device), tensor(empty_tensor(shape, dtype, cpu, false, format)) {
    require_call(data && emulator::is_device_memory(data), "an operand is not device memory");
  }
  HostCopy(const Volume& v, MemoryFormat format)
      : HostCopy(v.data, v.dtype, {v.batch, v.channels, v.size[0], v.size[1], v.size[2]}, format) {}

  std::size_t bytes() const {
    return static_cast<std::size_t>(tensor.numel()) * item_size(tensor.dtype());
  }
  const Tensor& fetch() {
    std::memcpy(tensor.raw_data(), data, bytes());
    return tensor;
  }
  void write_back() const { std::memcpy(const_cast<void*>(data), tensor.raw_data(), bytes()); }
};

op::ConvAttrs conv_attrs(const Convolution& c) {
  const op::ConvGeometry& g = c.geometry;
  return {.dims = 3,
          .stride = g.stride,
          .dilation = g.dilation,
          .pad_begin = g.pad,
          .groups = g.groups,
          .sizes = c.wanted == Convolution::Wanted::weight ? g.kernel : op::Extent{-1, -1, -1}};
}

using emulator::ConvolutionFault;
ConvolutionFault convolution_fault = ConvolutionFault::none;

/** Spoils a result as the fault demands. */
void spoil_convolution(const Convolution& c, const Tensor& result) {
  if (convolution_fault == ConvolutionFault::none) return;
  visit_dtype(result.dtype(), [&]<class T>(std::type_identity<T>) {
    const std::int64_t n = result.numel();
    T* const at = result.data<T>();
    for (std::int64_t i = 0; i < n; ++i) {
      if (convolution_fault == ConvolutionFault::wrong_factor)
        at[i] = static_cast<T>(static_cast<double>(at[i]) * 1.03);
      if (convolution_fault == ConvolutionFault::garbage_f64)
        at[i] = static_cast<T>(static_cast<double>(at[i]) * 5.26354424712089e-315);
      if (convolution_fault == ConvolutionFault::last_entry &&
          (c.wanted == Convolution::Wanted::weight || i >= n - n / result.size(0)))
        at[i] = static_cast<T>(static_cast<double>(at[i]) * 0.5);
    }
  });
}

void compute_convolution(const Convolution& c) {
  using Wanted = Convolution::Wanted;
  const emulator::MemoryScope scope;
  const op::Extent& k = c.geometry.kernel;
  HostCopy x(c.x, c.format), y(c.y, c.format);
  HostCopy w(c.weight, c.x.dtype,
             {c.y.channels, c.x.channels / c.geometry.groups, k[0], k[1], k[2]}, c.format);
  const op::ConvAttrs attrs = conv_attrs(c);
  if (c.wanted == Wanted::y) {
    Tensor in[] = {x.fetch(), w.fetch(), {}};
    if (c.bias)
      in[2] = HostCopy(c.bias, c.x.dtype, {c.y.channels}, MemoryFormat::contiguous).fetch();
    op::Conv3d::cpu(in, {&y.tensor, 1}, attrs);
    spoil_convolution(c, y.tensor);
    y.write_back();
  } else if (c.wanted == Wanted::x) {
    const Tensor in[] = {y.fetch(), w.fetch(), {}};
    op::ConvTranspose3d::cpu(in, {&x.tensor, 1}, attrs);
    spoil_convolution(c, x.tensor);
    x.write_back();
  } else {
    const Tensor in[] = {x.fetch(), y.fetch()};
    op::ConvWeight::cpu(in, {&w.tensor, 1}, attrs);
    spoil_convolution(c, w.tensor);
    w.write_back();
  }
}

}  // namespace

std::optional<Choice> emulated_plan(int first) {
  if (emulator::fails_in(emulator::LibraryStage::support)) return std::nullopt;
  emulator::reach_stage(emulator::LibraryStage::heuristics, "cudnnBackendFinalize of heuristics");
  if (first >= emulator::kLibraryAlgorithms) return std::nullopt;
  emulator::reach_stage(emulator::LibraryStage::planning, "cudnnBackendFinalize of a plan");
  return Choice{std::make_shared<const Plan>(), first};
}

// The library supports f64 too. Leaving it to Mezzo's own kernels tests both wherever all dtypes
// are tested.
bool takes(const Convolution& c) {
  return emulator::has_dnn() &&
         (c.x.dtype != DType::f64 || convolution_fault == ConvolutionFault::garbage_f64);
}

std::optional<Choice> find_plan(const Convolution&, Device, int first) {
  return emulated_plan(first);
}

void execute(const Plan&, const Convolution& c, Device, runtime::Stream stream) {
  require_call(c.x.dtype == c.y.dtype, "operands of two dtypes");
  require_call(!c.bias || c.wanted == Convolution::Wanted::y, "a bias beside a gradient");
  emulator::reach_stage(emulator::LibraryStage::execution, "cudnnBackendExecute");
  emulator::submit({"cuDNN", 0, stream}, [c] { compute_convolution(c); });
}

std::string description() { return "cuDNN emulated on the host"; }

}  // namespace mezzo::gpu::dnn

namespace mezzo::emulator {

namespace {
bool present = true;
DnnFault current_dnn_fault = DnnFault::none;
}  // namespace

bool has_dnn() { return present; }
void set_has_dnn(bool has) { present = has; }

DnnFault dnn_fault() { return current_dnn_fault; }
void set_dnn_fault(DnnFault wanted) { current_dnn_fault = wanted; }

void set_convolution_fault(ConvolutionFault wanted) { gpu::dnn::convolution_fault = wanted; }

}  // namespace mezzo::emulator
