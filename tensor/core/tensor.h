// Tensor: a shared handle to an n-dimensional array, with metadata, views and data access.
// Mathematical functions are free functions in tensor/ops/ops.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../device/device.h"
#include "../memory/storage.h"
#include "dtype.h"
#include "half.h"
#include "pointers.h"
#include "shape.h"
#include "tensor_methods.h"

namespace mezzo {

class Index;
class Tensor;

/** Base of the state that autograd/ attaches to a tensor: its gradient and its place in the
 *  graph. */
struct MZ_API AutogradState {
  virtual ~AutogradState() = default;
};

/** A tensor's role in a pair of a 16-bit parameter and the f32 master that is updated in its
 *  place. */
enum class Twin : std::uint8_t {
  none,  // not part of a pair, or its f32 master
  low,   // the 16-bit parameter; its gradient is scaled
};

/** The shared state behind Tensor handles. Internal to tensor/ and autograd/. */
struct MZ_API TensorImpl final : RefCounted {
  Ref<Storage> storage;           // the memory, shared with views and detached tensors
  Shape shape;                    // the size of each dimension
  Strides strides;                // in elements, one per dimension
  std::int64_t offset = 0;        // of the first element in the storage, in elements
  std::int64_t numel = 0;         // the number of elements; cached, see refresh()
  DType dtype = DType::f32;       // the element type
  bool contiguous = true;         // row-major without gaps; cached, because every kernel reads it
  bool channels_last = false;     // by suggested_format(); the tensor may be row-major as well
  bool requires_grad = false;     // a leaf with a gradient, or the result of an operation on one
  bool is_scalar = false;         // a C++ number: never decides a dtype within its category
  bool is_parameter = false;      // a layer's weight: its cast may be cached even while frozen
  Twin twin = Twin::none;         // set by mixed precision with f32 masters
  Owner<AutogradState> autograd;  // null until autograd/ attaches its state

  /** Recomputes numel, contiguous and channels_last after a change of shape or strides. */
  void refresh();
};

namespace detail {
[[noreturn]] MZ_API void refuse_undefined();
}  // namespace detail

/** A handle to a shared n-dimensional array; copies refer to the same tensor. */
class MZ_API Tensor : public TensorMethods {
 public:
  class RowIterator;

  /** Constructs an undefined tensor, without shape and data; it means "absent" in optional
   *  arguments. */
  Tensor() = default;
  /** Constructs a handle to existing state; internal to tensor/ and autograd/. */
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  /** Makes a second handle to the same tensor; clone() copies the elements. */
  Tensor(const Tensor&) = default;
  /** Takes over the handle; the source becomes undefined. */
  Tensor(Tensor&&) noexcept = default;
  /** Rebinds this handle to the other's tensor; copy_() overwrites the elements. */
  Tensor& operator=(const Tensor&) & = default;
  /** As above; the source becomes undefined. */
  Tensor& operator=(Tensor&&) & noexcept = default;
  /** Assigns to what an expression refers to: x[0] = y and x[{Slice(0, 2), -1}] = y overwrite
   *  elements of x, as copy_(y) does. Errors: ValueError if the expression is no view of another
   *  tensor, such as relu(x) or x[mask]; as copy_. */
  const Tensor& operator=(const Tensor& value) &&;
  /** As above with a number, as fill_ does. */
  template <Number S> const Tensor& operator=(S value) && {
    require_shared_memory();
    return fill_(static_cast<double>(value));
  }

  // ---- what it is -------------------------------------------------------------------------------
  /** Returns false for a default-constructed tensor. */
  bool defined() const { return static_cast<bool>(impl_); }
  /** Returns the size of each dimension. */
  const Shape& shape() const { return self().shape; }
  /** Returns the strides in elements. */
  const Strides& strides() const { return self().strides; }
  /** Returns the size of one dimension; negative counts from the end. Errors: IndexError. */
  std::int64_t size(std::int64_t dim) const;
  /** Returns the number of dimensions. */
  int dim() const { return self().shape.rank(); }
  /** Returns the number of elements. */
  std::int64_t numel() const { return self().numel; }
  /** Returns the element type. */
  DType dtype() const { return self().dtype; }
  /** Returns the device that holds the elements. */
  Device device() const { return self().storage->device(); }
  /** Returns true if the elements are row-major without gaps. */
  bool is_contiguous() const { return self().contiguous; }
  /** Returns true if the elements are stored in the order of the format without gaps; false if the
   *  rank does not fit the format. */
  bool is_contiguous(MemoryFormat format) const;
  /** Returns channels_last if the strides indicate it, with or without gaps; ops that preserve
   *  formats use this. */
  MemoryFormat memory_format() const {
    return self().channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  }
  /** Returns true if both handles refer to the same tensor; values are not compared. */
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  /** Returns true if the elements are in pinned host memory. */
  bool is_pinned() const { return self().storage->is_pinned(); }
  /** Returns the number of in-place writes to the storage. */
  std::uint32_t version() const { return self().storage->version(); }

  // ---- its elements -----------------------------------------------------------------------------
  /** Returns the address of the first element. The version counter does not count writes through
   *  it, so 16-bit copies and packed copies of these elements are no longer kept from one use to
   *  the next. Errors: DtypeError if T is not the dtype. */
  template <class T> T* data() const {
    require_dtype(dtype_of<T>());
    self().storage->expose();
    return static_cast<T*>(raw_data());
  }
  /** Returns the address of the first element without a type, for kernels: who writes through it
   *  counts the write in the version, or calls data() before. */
  void* raw_data() const {
    return static_cast<char*>(self().storage->data()) +
           impl_->offset * static_cast<std::int64_t>(item_size(impl_->dtype));
  }
  /** Returns the single element, converted to T: an integer type, bool, float or double. Converted
   *  as by to(): a floating-point number beyond the range of T is the nearest T, bool excepted.
   *  Synchronises with the device. Errors: ShapeError unless numel is 1; ValueError for an integer
   *  that T does not hold. */
  template <class T> T item() const;
  /** Returns the single element as a double. Errors: as above; ValueError for an integer that a
   *  double does not hold exactly, for which there is item<std::int64_t>(). */
  double item() const;
  /** Returns all elements in row-major order, converted to T as by item(). Synchronises with the
   *  device. Errors: ValueError for an integer that T does not hold. */
  template <class T> std::vector<T> to_vector() const;

  // ---- views: share storage and version counter; gradients flow through -------------------------
  /** Returns a view with another shape; one size may be -1. Errors: ShapeError if the sizes do not
   *  fit or the strides do not allow a view. */
  Tensor view(const Shape& shape) const;
  /** Returns a view as view() does, or a copy if the strides do not allow one. */
  Tensor reshape(const Shape& shape) const;
  /** Returns a tensor in which the dimensions start..end (inclusive) are merged into one. */
  Tensor flatten(std::int64_t start = 0, std::int64_t end = -1) const;
  /** Returns a view in which dimension `dim` is split into `sizes`. Errors: ShapeError. */
  Tensor unflatten(std::int64_t dim, const Shape& sizes) const;
  /** Returns a view with two dimensions swapped. Errors: IndexError. */
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  /** Returns the transpose of a matrix as a view. Errors: ShapeError unless 2-D. */
  Tensor t() const;
  /** As t(). */
  Tensor T() const { return t(); }
  /** Returns a view with the last two dimensions swapped. Errors: IndexError below rank 2. */
  Tensor mT() const { return transpose(-2, -1); }
  /** Returns a view with reordered dimensions: dimension i of the result is dimension order[i] of
   *  this tensor. Negative dimensions count from the end. Errors: ShapeError unless `order` has one
   *  entry per dimension; IndexError for a dimension out of range or named twice. */
  Tensor permute(std::span<const std::int64_t> order) const;
  /** As above, for permute({0, 2, 1}). */
  Tensor permute(std::initializer_list<std::int64_t> order) const;
  /** Returns a view in which dimension `from` is moved to place `to`; the others keep their order.
   *  Errors: IndexError. */
  Tensor movedim(std::int64_t from, std::int64_t to) const;
  /** Returns a view in which dimension from[i] is moved to place to[i]; the others keep
   *  their order. Errors: IndexError; ShapeError if the numbers of dimensions differ. */
  Tensor movedim(std::span<const std::int64_t> from, std::span<const std::int64_t> to) const;
  /** As above, for movedim({0, 1}, {1, 0}). */
  Tensor movedim(std::initializer_list<std::int64_t> from,
                 std::initializer_list<std::int64_t> to) const;
  /** Returns a view without the dimensions of size 1. */
  Tensor squeeze() const;
  /** Returns a view without dimension `dim` if its size is 1, else of the same shape. Errors:
   *  IndexError. */
  Tensor squeeze(std::int64_t dim) const;
  /** Returns a view with a dimension of size 1 inserted at `dim`. Errors: IndexError. */
  Tensor unsqueeze(std::int64_t dim) const;
  /** Returns a view in which dimensions of size 1 are repeated without copying (stride 0); -1 keeps
   *  a size. Errors: ShapeError. */
  Tensor expand(const Shape& shape) const;
  /** Returns a view of the elements start, start+step, ... below end along dim. Negative bounds
   *  count from the end; bounds are clamped. Errors: ValueError unless step > 0. */
  Tensor slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const;
  /** Returns a view of `length` elements from `start` along dim. Errors: IndexError if they do not
   *  exist. */
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  /** Returns a view at one index along dim, without that dimension. Errors: IndexError. */
  Tensor select(std::int64_t dim, std::int64_t index) const;
  /** Returns select(0, index). */
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  /** Returns x[...] of Python: x[{Slice(0, 2), None, -1}], x[{Ellipsis, 0}], x[mask]; subscript.h
   *  has the kinds of indices. Numbers, slices, None and Ellipsis select a view, to which one can
   *  assign; tensors among them select a copy, as mezzo::index does. Errors: IndexError; ValueError
   *  for a step below 1; as mezzo::index. */
  Tensor operator[](const Index& one) const;
  /** As above, for several indices. */
  Tensor operator[](std::initializer_list<Index> indices) const;
  /** As above, for x.index({Slice(0, 2), None, -1}). */
  Tensor index(std::initializer_list<Index> indices) const;
  /** As above. */
  Tensor index(std::span<const Index> indices) const;
  /** Overwrites the elements that index() selects with `values`, which are broadcast and converted,
   *  or adds to them if `accumulate` is set. Returns this tensor. Errors: as index(); as
   *  mezzo::index_put_ where tensors select, else as copy_ or add_. */
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& values,
                           bool accumulate = false) const;
  /** As above with a number. */
  template <Number S>
  const Tensor& index_put_(std::initializer_list<Index> indices, S value,
                           bool accumulate = false) const;
  /** Returns an iterator over the views x[0], x[1], ...: for (const Tensor& row : x). Errors:
   *  ShapeError for a 0-dim tensor. */
  RowIterator begin() const;
  /** Returns the end of that iteration. */
  RowIterator end() const;
  /** Returns views of `size` elements along dim, the last one possibly smaller. Errors: ValueError
   *  unless size > 0. */
  std::vector<Tensor> split(std::int64_t size, std::int64_t dim = 0) const;
  /** Returns at most `chunks` views of equal size along dim, the last one possibly smaller. */
  std::vector<Tensor> chunk(std::int64_t chunks, std::int64_t dim = 0) const;
  /** Returns one view per index along dim, without that dimension. */
  std::vector<Tensor> unbind(std::int64_t dim = 0) const;
  /** Returns expand(shape). */
  Tensor broadcast_to(const Shape& shape) const { return expand(shape); }
  /** Returns a view of the elements whose indices in dim2 and dim1 differ by `offset`; they form
   *  the last dimension, which replaces dim1 and dim2. Errors: IndexError for equal dimensions. */
  Tensor diagonal(std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) const;
  /** Returns a view of windows of `size` elements along dim, `step` apart: dim counts the windows,
   *  and a new last dimension holds their elements. Errors: ValueError unless 0 <= size <= the
   *  dimension's size and step > 0. */
  Tensor unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const;
  /** Returns a view with arbitrary sizes, strides and offset (in elements, relative to this
   *  tensor's first). Errors: ShapeError if ranks differ, ValueError for a negative stride,
   *  IndexError if it exceeds the storage. */
  Tensor as_strided(const Shape& shape, const Strides& strides, std::int64_t offset = 0) const;

  // ---- copies and conversions -------------------------------------------------------------------
  /** Returns this tensor in another dtype, rounded once to nearest even; itself if it has that
   *  dtype. The gradient is returned in the source dtype. From floating to integer: truncated and
   *  saturated, nan becomes 0; PyTorch's result is undefined there and differs between devices. */
  Tensor to(DType dtype) const;
  /** Returns this tensor on another device, dtype kept; itself if it is there. With non_blocking a
   *  copy on the CPU is in pinned memory. Errors: DeviceError; OutOfMemory; StateError while a step
   *  is captured. */
  Tensor to(Device device, const CopyOptions& options = {}) const;
  /** Returns this tensor on another device in another dtype. Errors: as to(device). */
  Tensor to(Device device, DType dtype, const CopyOptions& options = {}) const;
  /** Returns to(f16). */
  Tensor half() const { return to(DType::f16); }
  /** Returns to(bf16). */
  Tensor bfloat16() const { return to(DType::bf16); }
  /** Returns this tensor in pinned host memory, which a device can access directly without blocking
   *  the host; itself if it is there. Blocks are cached; a block is reused only after the copies
   *  that used it are done. Gradients pass through. Errors: DeviceError for a tensor on a device,
   *  and if this build or machine has no device; OutOfMemory. */
  Tensor pin_memory() const;
  /** Returns this tensor with the strides of a memory format, values kept; itself if it has them.
   *  Gradients pass through. Errors: ShapeError for channels_last unless 4-D or 5-D. */
  Tensor to(MemoryFormat format) const;
  /** Returns a row-major copy, or itself if it is row-major. */
  Tensor contiguous() const;
  /** Returns a copy in the order of the format, or itself if its elements are in that order.
   *  Errors: ShapeError for channels_last unless 4-D or 5-D. */
  Tensor contiguous(MemoryFormat format) const;
  /** Returns a copy with its own storage; channels-last if this one is, else row-major. */
  Tensor clone() const;
  /** Returns a tensor of the same elements outside the graph. It shares storage and version
   *  counter, and requires no gradient. */
  Tensor detach() const;

  // ---- in-place writes: each increments the version counter and returns this tensor -------------
  /** Overwrites all elements with `value`, rounded to the dtype. */
  const Tensor& fill_(double value) const;
  /** Overwrites all elements with 0. */
  const Tensor& zero_() const { return fill_(0); }
  /** Overwrites with the elements of `source`, broadcast and converted. A non-blocking copy from a
   *  device, as `options` request, needs a `source` that is row-major and of this shape and dtype;
   *  otherwise the host waits. Errors: ShapeError. */
  const Tensor& copy_(const Tensor& source, const CopyOptions& options = {}) const;

  // ---- derivatives (defined in autograd/) -------------------------------------------------------
  /** Returns true for a leaf with a gradient, and for results of operations on one. */
  bool requires_grad() const { return self().requires_grad; }
  /** Enables or disables the gradient of a leaf. Errors: StateError on a non-leaf, DtypeError on
   *  integers. */
  const Tensor& requires_grad_(bool on = true) const;
  /** Returns true unless this is the result of a recorded operation. */
  bool is_leaf() const;
  /** Returns the accumulated gradient, undefined before any backward; same dtype and shape as this
   *  tensor. */
  Tensor grad() const;
  /** Replaces the gradient; an undefined tensor removes it. Errors: ShapeError, DtypeError,
   *  DeviceError. */
  void set_grad(const Tensor& grad) const;
  /** Makes backward keep the gradient of a non-leaf. Errors: StateError if it does not require
   *  one. */
  const Tensor& retain_grad() const;
  /** Accumulates the gradients of this tensor with respect to the leaves it was computed from.
   *  `gradient` has this tensor's shape; for a tensor of one element it may be omitted and is 1.
   *  Errors: StateError if this tensor requires no gradient or the graph was freed; ShapeError;
   *  DeviceError. */
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;

  /** Returns the shared state; internal to tensor/ and autograd/. */
  TensorImpl* impl() const { return impl_.get(); }

 private:
  void require_dtype(DType wanted) const;
  void require_shared_memory() const;

  /** Returns the shared state. Errors: ValueError for an undefined tensor. */
  TensorImpl& self() const {
    if (!impl_) [[unlikely]]
      detail::refuse_undefined();
    return *impl_;
  }

  Ref<TensorImpl> impl_;
};

/** The iterator of for (const Tensor& row : x). */
class Tensor::RowIterator {
 public:
  /** The type of the elements. */
  using value_type = Tensor;
  /** Required of iterators by the standard library. */
  using difference_type = std::ptrdiff_t;

  /** Constructs the place of row `row`; the iterator refers to the same tensor as x. */
  RowIterator(const Tensor& x, std::int64_t row) : x_(x), row_(row) {}
  /** Returns a view of the row. */
  Tensor operator*() const { return x_.select(0, row_); }
  /** Goes to the next row. */
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  /** As above; returns the place before. */
  RowIterator operator++(int) { return {x_, row_++}; }
  /** Returns true for the same row of the same tensor. */
  bool operator==(const RowIterator& other) const {
    return row_ == other.row_ && x_.is_same(other.x_);
  }

 private:
  Tensor x_;
  std::int64_t row_;
};

// x[0, 1] is x[1] in C++20, by the comma operator. It does not compile: write x[{0, 1}] or x[0][1].
#if defined(__clang__)
#  pragma clang diagnostic error "-Wdeprecated-comma-subscript"
#elif defined(__GNUC__)
#  pragma GCC diagnostic error "-Wcomma-subscript"
#endif

/** Returns a short description for errors: "f16[8,64]@cuda:0", or "undefined". */
MZ_API std::string str(const Tensor& tensor);

/** Returns the descriptions of several tensors, joined as in "f32[2]@cpu and f16[3]@cpu". */
MZ_API std::string str(std::span<const Tensor> tensors);

/** Returns an uninitialised tensor, on the CPU in pinned memory if requested; the rank must fit the
 *  format. Errors: ValueError, SizeError, OutOfMemory; DeviceError if the device is absent, or if
 *  `pinned` is set for device memory. */
MZ_API Tensor empty_tensor(const Shape& shape, DType dtype, Device device, bool pinned = false,
                           MemoryFormat format = MemoryFormat::contiguous);

/** Returns true if two tensors have the same shape and store their elements without gaps in the
 *  same order, so that kernels may treat both as flat arrays. */
MZ_API bool same_dense_layout(const Tensor& a, const Tensor& b);

/** Returns a tensor over the same storage with its own shape, strides and offset, outside the
 *  graph. The caller must ensure that it stays within the storage. */
MZ_API Tensor alias(const Tensor& base, const Shape& shape, const Strides& strides,
                    std::int64_t offset);

/** Returns a C++ number as 0-dim f64 operand on the CPU. It never decides a dtype within its
 *  category. */
MZ_API Tensor scalar_operand(double value);
/** As above, as i64. */
MZ_API Tensor scalar_operand(std::int64_t value);

/** A view of tensors for the duration of a call; do not store it. Constructors are not inline, as
 *  those of Shape. */
class MZ_API TensorList : public std::span<const Tensor> {
 public:
  TensorList() = default;
  /** A list of one tensor. */
  TensorList(const Tensor& one);  // NOLINT: conversion is the point
  /** As {a, b}. */
  TensorList(std::initializer_list<Tensor> list);  // NOLINT
  /** The tensors of a container. */
  TensorList(const std::vector<Tensor>& list);  // NOLINT
  /** As above. */
  TensorList(std::span<const Tensor> list);  // NOLINT
  /** As above. */
  TensorList(std::span<Tensor> list);  // NOLINT
  /** As above. */
  template <std::size_t N>
  TensorList(const std::array<Tensor, N>& list) : TensorList(list.data(), N) {}  // NOLINT
  /** As above. */
  template <std::size_t N>
  TensorList(const Tensor (&list)[N]) : TensorList(list + 0, N) {}  // NOLINT

 private:
  TensorList(const Tensor* first, std::size_t count);
};

}  // namespace mezzo
