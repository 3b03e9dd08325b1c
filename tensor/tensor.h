// Tensor: a cheap shared handle to an n-dimensional array: metadata, views, data access.
// Sees: dtype, shape, device, storage. Maths are free functions (autograd/ops.h); derivatives hang off an opaque slot.
// Read next: create.h (making tensors), op.h and dispatch.h (how every operation runs).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device.h"
#include "dtype.h"
#include "half.h"
#include "memory_format.h"
#include "shape.h"
#include "storage.h"

namespace mezzo {

class Tensor;

/** What autograd/ attaches to a tensor: its gradient, its place in the graph. Opaque here. */
struct MZ_API AutogradState {
  virtual ~AutogradState() = default;
};

/** A tensor's part in a pair of a 16-bit parameter and the f32 master that is updated in its place. */
enum class Twin : std::uint8_t {
  none,
  low,          // its own gradient is a scaled one
  bare_master,  // a master whose gradient stays with the parameter, still scaled
};

/** The shared part of a Tensor. Code outside tensor/ and autograd/ has no business with it. */
struct MZ_API TensorImpl final : RefCounted {
  Ref<Storage> storage;
  Shape shape;
  Strides strides;          // in elements
  std::int64_t offset = 0;  // in elements
  std::int64_t numel = 0;
  DType dtype = DType::f32;
  bool contiguous = true;      // row-major without gaps; kept beside the strides because every kernel asks
  bool channels_last = false;  // by its strides: suggested_format(); it may be row-major as well
  bool requires_grad = false;  // a leaf that wants a gradient, or the result of an operation on one
  bool is_scalar = false;  // stands for a C++ number: never decides a dtype within its category (OPS.md 9.1)
  bool is_parameter = false;  // a layer's weight: eligible for the weight-cast cache even while frozen
  Twin twin = Twin::none;
  std::unique_ptr<AutogradState> autograd;

  /** Recomputes numel, contiguous and channels_last after shape or strides were set. */
  void refresh();
};

namespace detail {
[[noreturn]] MZ_API void refuse_undefined();
}  // namespace detail

class MZ_API Tensor {
 public:
  /** An undefined tensor: no shape, no data; stands for "absent" in optional arguments. */
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  // x.view({2, 3}) = y would rebind a temporary and change nothing; x.view({2, 3}).copy_(y) writes.
  Tensor& operator=(const Tensor&) && = delete;
  Tensor& operator=(Tensor&&) && = delete;

  // ---- what it is ------------------------------------------------------------------------------------------------
  bool defined() const { return static_cast<bool>(impl_); }
  const Shape& shape() const { return self().shape; }
  const Strides& strides() const { return self().strides; }
  /** Size of one dimension; negative counts from the end. Errors: IndexError. */
  std::int64_t size(std::int64_t dim) const;
  /** Number of dimensions. */
  int dim() const { return self().shape.rank(); }
  std::int64_t numel() const { return self().numel; }
  DType dtype() const { return self().dtype; }
  Device device() const { return self().storage->device(); }
  bool is_contiguous() const { return self().contiguous; }
  /** Whether the elements lie in the order of the format without gaps. False where the format is not for this rank. */
  bool is_contiguous(MemoryFormat format) const;
  /** channels_last where the strides say so, gaps or not; ops that keep formats go by it. */
  MemoryFormat memory_format() const {
    return self().channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  }
  /** Same handle: both name one tensor object, not merely equal values. */
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /** Whether its elements lie in pinned host memory. */
  bool is_pinned() const { return self().storage->is_pinned(); }
  /** Number of in-place writes its storage has seen. */
  std::uint32_t version() const { return self().storage->version(); }

  // ---- its elements ----------------------------------------------------------------------------------------------
  /** Address of the first element. Writing through it is not seen by the version counter. Errors: DtypeError when T is not the dtype. */
  template <class T> T* data() const {
    require_dtype(dtype_of<T>());
    return static_cast<T*>(raw_data());
  }
  void* raw_data() const {
    return static_cast<char*>(self().storage->data()) +
           impl_->offset * static_cast<std::int64_t>(item_size(impl_->dtype));
  }
  /** The single element, converted to T. Synchronises with the device. Errors: ShapeError unless numel is 1. */
  template <class T> T item() const;
  /** All elements in row-major order, converted to T. Synchronises with the device. */
  template <class T> std::vector<T> to_vector() const;

  // ---- views: share storage and version counter; gradients flow through ----------------------------------------------
  /** Same elements under another shape; one size may be -1. Errors: ShapeError when sizes do not fit or the strides do not allow a view. */
  Tensor view(const Shape& shape) const;
  /** As view, copying where the strides do not allow one. */
  Tensor reshape(const Shape& shape) const;
  /** Dimensions start..end (inclusive) become one. */
  Tensor flatten(std::int64_t start = 0, std::int64_t end = -1) const;
  Tensor unflatten(std::int64_t dim, const Shape& sizes) const;
  /** Swaps two dimensions. Errors: IndexError. */
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  /** Transpose of a matrix. Errors: ShapeError unless 2-D. */
  Tensor t() const;
  /** Reorders dimensions: result dimension i is this one's order[i]. Errors: ShapeError unless a permutation. */
  Tensor permute(std::span<const std::int64_t> order) const;
  Tensor permute(std::initializer_list<std::int64_t> order) const {
    return permute(std::span(order.begin(), order.size()));
  }
  /** Moves a dimension, or several: the others keep their order. Errors: IndexError, ShapeError when the numbers of dimensions differ. */
  Tensor movedim(std::int64_t from, std::int64_t to) const;
  Tensor movedim(std::span<const std::int64_t> from, std::span<const std::int64_t> to) const;
  Tensor movedim(std::initializer_list<std::int64_t> from, std::initializer_list<std::int64_t> to) const {
    return movedim(std::span(from.begin(), from.size()), std::span(to.begin(), to.size()));
  }
  /** Drops every dimension of size 1, or the one named if its size is 1. */
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  /** Repeats size-1 dimensions without copying (stride 0); -1 keeps a size. Errors: ShapeError. */
  Tensor expand(const Shape& shape) const;
  /** Elements start, start+step, ... below end along dim. Negative bounds count from the end, bounds clamp. Errors: ValueError unless step > 0. */
  Tensor slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const;
  /** length elements from start along dim. Errors: IndexError when they do not exist. */
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  /** One index along dim, which vanishes. Errors: IndexError. */
  Tensor select(std::int64_t dim, std::int64_t index) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  /** Pieces of `size` along dim, the last one possibly smaller. Errors: ValueError unless size > 0. */
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  /** At most `chunks` pieces of equal size, the last one possibly smaller. */
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  /** As expand. */
  Tensor broadcast_to(const Shape& shape) const { return expand(shape); }
  /** The elements whose indices in dim2 and dim1 differ by offset, as a last dimension in their place. Errors: IndexError for equal dimensions. */
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) const;
  /** Windows of `size` elements along dim, `step` apart: dim counts them, a last dimension holds their elements.
   *  Errors: ValueError unless 0 <= size <= the dimension's and step > 0. */
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const;
  /** A view with sizes, strides and offset (in elements, from this tensor's first) of the caller's choice.
   *  Errors: ShapeError when ranks differ, ValueError for a negative stride, IndexError when it leaves the storage. */
  Tensor as_strided(const Shape& shape, const Strides& strides, std::int64_t offset = 0) const;

  // ---- copies and conversions ------------------------------------------------------------------------------------
  /** This tensor in another dtype, rounded once to nearest even; itself when it has that dtype. Gradient
   *  returns in the source dtype. From floating to integer: truncated, and limited to what the dtype
   *  holds, nan as 0; PyTorch's result is undefined there and differs between devices. */
  Tensor to(DType dtype) const;
  /** This tensor on another device, dtype kept; itself when it is there. With non_blocking a copy on the CPU is in pinned memory. Errors: DeviceError,
   *  OutOfMemory; StateError while a step is captured. */
  Tensor to(Device device, const CopyOptions& options = {}) const;
  /** This tensor in pinned host memory, which a device copies from and to without a detour and without the host waiting; itself when it is there.
   *  Blocks are cached, and none is used again before the copies that it took part in are done. Gradients pass through.
   *  Errors: DeviceError for a tensor on a device, and where this build or machine has no device; OutOfMemory. */
  Tensor pin_memory() const;
  /** This tensor with the strides of a memory format, values kept; itself when it has them. Gradients pass through.
   *  Errors: ShapeError for channels_last unless 4-D or 5-D. */
  Tensor to(MemoryFormat format) const;
  /** Row-major copy, or itself when it is row-major. */
  Tensor contiguous() const;
  /** A copy in the order of the format, or itself when its elements lie in it. Errors: ShapeError for channels_last unless 4-D or 5-D. */
  Tensor contiguous(MemoryFormat format) const;
  /** A copy with storage of its own; channels-last where this one is, else row-major. */
  Tensor clone() const;
  /** The same elements outside the graph: shares storage and version counter, requires no gradient. */
  Tensor detach() const;

  // ---- in-place writes: each bumps the version counter and returns this tensor ------------------------------------------
  /** Overwrites with `value`, rounded to the dtype. */
  const Tensor& fill_(double value) const;
  const Tensor& zero_() const { return fill_(0); }
  /** Overwrites with the elements of `source`, broadcast and converted. Without a wait, as options say, what comes from a device has to be row-major,
   *  of this shape and dtype; else the host waits. Errors: ShapeError. */
  const Tensor& copy_(const Tensor& source, const CopyOptions& options = {}) const;

  // ---- derivatives (defined in autograd/) ---------------------------------------------------------------------------
  bool requires_grad() const { return self().requires_grad; }
  /** Asks for a gradient, or freezes. Errors: StateError on a non-leaf, DtypeError on integers. */
  const Tensor& requires_grad_(bool on = true) const;
  /** True unless this is the result of a recorded operation. */
  bool is_leaf() const;
  /** The accumulated gradient, undefined before any backward; same dtype and shape as this tensor. */
  Tensor grad() const;
  /** Replaces the gradient; an undefined tensor removes it. Errors: ShapeError, DtypeError, DeviceError. */
  void set_grad(const Tensor& grad) const;
  /** Keeps a non-leaf's gradient after backward. Errors: StateError where it requires none. */
  const Tensor& retain_grad() const;
  /** Accumulates the gradient of this tensor into the leaves it came from. `gradient` has this tensor's shape; it may be left out for one
   *  element (1 is meant). Errors: StateError when nothing here requires a gradient or the graph was freed, ShapeError, DeviceError. */
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;

  TensorImpl* impl() const { return impl_.get(); }

 private:
  void require_dtype(DType wanted) const;

  /** Reading an undefined tensor is an error, not a crash: ValueError. */
  TensorImpl& self() const {
    if (!impl_) [[unlikely]]
      detail::refuse_undefined();
    return *impl_;
  }

  Ref<TensorImpl> impl_;
};

/** "f16[8,64]@cuda:0": how errors name a tensor; "undefined" for an undefined one. */
MZ_API std::string str(const Tensor& tensor);

/** The names of several tensors, joined as in "f32[2]@cpu and f16[3]@cpu". */
MZ_API std::string str(std::span<const Tensor> tensors);

/** Uninitialised tensor, on the CPU in pinned memory where asked for; the rank fits the format.
 *  Errors: ValueError, SizeError, OutOfMemory; DeviceError where the device is absent, or memory of a device is to be pinned. */
MZ_API Tensor empty_tensor(const Shape& shape, DType dtype, Device device, bool pinned = false,
                           MemoryFormat format = MemoryFormat::contiguous);

/** Whether two tensors hold their elements without gaps and in one order, so that kernels may take both for flat arrays. */
MZ_API bool lie_alike(const Tensor& a, const Tensor& b);

/** A tensor over the same storage with its own geometry, outside the graph. The caller vouches for the bounds. */
MZ_API Tensor alias(const Tensor& base, const Shape& shape, const Strides& strides, std::int64_t offset);

/** A C++ number as 0-dim operand: f64, or i64 when integral; never decides a dtype within its category. */
MZ_API Tensor scalar_operand(double value);
MZ_API Tensor scalar_operand(std::int64_t value);

}  // namespace mezzo
