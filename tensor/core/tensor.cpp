#include "tensor.h"

#include <limits>
#include <type_traits>

#include "../device/capture.h"
#include "../ops/shape/copy.h"
#include "../text/text.h"
#include "convert_value.h"
#include "dispatch.h"
#include "error.h"

namespace mezzo {

void detail::refuse_undefined() {
  fail<ValueError>("tensor", {.what = "the tensor is undefined",
                              .expected = "a tensor with a shape and a dtype",
                              .hint = "check x.defined()"});
}

void TensorImpl::refresh() {
  numel = checked_numel(shape, "view");
  contiguous = true;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0 && numel != 0; --i) {
    if (shape[i] != 1 && strides[i] != step) contiguous = false;
    step *= shape[i];
  }
  channels_last = suggested_format(shape, strides) == MemoryFormat::channels_last;
}

Tensor empty_tensor(const Shape& shape, DType dtype, Device device, bool pinned,
                    MemoryFormat format) {
  Ref<TensorImpl> impl = make_ref<TensorImpl>();
  impl->numel = checked_numel(shape, "empty");
  impl->shape = shape;
  impl->strides = strides_in(format, shape);
  if (format == MemoryFormat::channels_last) impl->refresh();
  impl->dtype = dtype;
  impl->storage =
      make_ref<Storage>(static_cast<std::size_t>(impl->numel) * item_size(dtype), device, pinned);
  return Tensor(std::move(impl));
}

Tensor alias(const Tensor& base, const Shape& shape, const Strides& strides, std::int64_t offset) {
  Ref<TensorImpl> impl = make_ref<TensorImpl>();
  impl->storage = base.impl()->storage;
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->dtype = base.dtype();
  impl->refresh();
  return Tensor(std::move(impl));
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::contiguous) return is_contiguous();
  return are_dense(format, shape(), strides());
}

bool same_dense_layout(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape())) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.is_contiguous(MemoryFormat::channels_last) &&
         b.is_contiguous(MemoryFormat::channels_last);
}

namespace {
template <class T> Tensor number(T value) {
  Tensor x = empty_tensor({}, dtype_of<T>(), cpu);
  *x.data<T>() = value;
  x.impl()->is_scalar = true;
  return x;
}
}  // namespace

Tensor scalar_operand(double value) { return number(value); }
Tensor scalar_operand(std::int64_t value) { return number(value); }

std::string str(const Tensor& x) {
  if (!x.defined()) return "undefined";
  return str(name(x.dtype()), x.shape(), "@", x.device());
}

TensorList::TensorList(const Tensor* first, std::size_t count) : span(first, count) {}
TensorList::TensorList(const Tensor& one) : span(&one, 1) {}
TensorList::TensorList(std::initializer_list<Tensor> list) : span(list.begin(), list.size()) {}
TensorList::TensorList(const std::vector<Tensor>& list) : span(list) {}
TensorList::TensorList(std::span<const Tensor> list) : span(list) {}
TensorList::TensorList(std::span<Tensor> list) : span(list) {}

std::string str(std::span<const Tensor> tensors) {
  std::string out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0) out += i + 1 == tensors.size() ? " and " : ", ";
    out += str(tensors[i]);
  }
  return out;
}

std::int64_t Tensor::size(std::int64_t dim) const {
  const int d = wrap_dim(dim, this->dim(), "size");
  return this->dim() == 0 ? 1 : shape()[d];
}

Tensor Tensor::detach() const {
  Tensor out = alias(*this, shape(), strides(), self().offset);
  out.impl()->is_scalar = self().is_scalar;
  return out;
}

void Tensor::require_dtype(DType wanted) const {
  if (wanted != dtype())
    fail<DtypeError>("data", {.what = "the tensor holds another type",
                              .got = str(*this),
                              .expected = str(name(wanted), ""),
                              .hint = "use x.to(dtype)"});
}

namespace {

/** Returns the tensor's elements as row-major doubles or integers on the CPU, outside the graph. */
Tensor fetch(const Tensor& x, DType dtype) {
  const CastScope no_casts(nullptr);
  return x.detach().to(cpu).to(dtype).contiguous();
}

/** Returns an integer as a T. Errors: ValueError unless T holds it; bool holds every integer. */
template <class T> T exactly(const char* op, std::int64_t value, const Tensor& x) {
  const auto out = converted<T>(value);
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (static_cast<std::int64_t>(out) != value || (out < T{}) != (value < 0))
      fail<ValueError>(
          op, {.what = "the C++ type does not hold this integer",
               .got = str(value, " in ", x),
               .expected = str(static_cast<std::int64_t>(std::numeric_limits<T>::min()), "..",
                               std::numeric_limits<T>::max()),
               .hint = "use std::int64_t"});
  return out;
}

template <class T> std::vector<T> fetch_vector(const char* op, const Tensor& x) {
  const auto n = static_cast<std::size_t>(x.numel());
  std::vector<T> out;
  out.reserve(n);
  // f64 and i64 hold every source value exactly.
  if (is_floating(x.dtype())) {
    const Tensor host = fetch(x, DType::f64);
    for (const double value : std::span(host.data<double>(), n)) out.push_back(converted<T>(value));
  } else {
    const Tensor host = fetch(x, DType::i64);
    for (const std::int64_t value : std::span(host.data<std::int64_t>(), n))
      out.push_back(exactly<T>(op, value, x));
  }
  return out;
}

}  // namespace

template <class T> T Tensor::item() const {
  if (!defined())
    fail<ValueError>("item", {.what = "the tensor is undefined", .expected = "one element"});
  if (numel() != 1)
    fail<ShapeError>("item", {.what = "only a tensor of one element has an item",
                              .got = str(*this),
                              .expected = "numel 1",
                              .hint = "use x.to_vector<T>()"});
  Capture::refuse_crossing(ApiScope::outermost("item"), *this, cpu);
  return fetch_vector<T>("item", *this)[0];
}

double Tensor::item() const {
  if (defined() && !is_floating(dtype()) && numel() == 1) {
    const auto exact = item<std::int64_t>();
    constexpr std::int64_t kLimit = std::int64_t{1} << std::numeric_limits<double>::digits;
    if (exact > kLimit || exact < -kLimit)
      fail<ValueError>("item", {.what = "a double does not hold this integer exactly",
                                .got = str(exact, " in ", *this),
                                .hint = "use x.item<std::int64_t>()"});
    return static_cast<double>(exact);
  }
  return item<double>();
}

Tensor::RowIterator Tensor::begin() const {
  if (dim() == 0)
    fail<ShapeError>("begin", {.what = "a 0-dim tensor has no rows",
                               .got = str(*this),
                               .expected = "at least one dimension"});
  return {*this, 0};
}

Tensor::RowIterator Tensor::end() const { return {*this, dim() == 0 ? 0 : size(0)}; }

template <class T> std::vector<T> Tensor::to_vector() const {
  Capture::refuse_crossing(ApiScope::outermost("to_vector"), *this, cpu);
  return fetch_vector<T>("to_vector", *this);
}

#define MZ_INSTANTIATE(T)                    \
  template MZ_API T Tensor::item<T>() const; \
  template MZ_API std::vector<T> Tensor::to_vector<T>() const;
// Every integer type by its own name: std::int64_t is one of long and long long.
MZ_INSTANTIATE(bool)
MZ_INSTANTIATE(char)
MZ_INSTANTIATE(signed char)
MZ_INSTANTIATE(unsigned char)
MZ_INSTANTIATE(short)
MZ_INSTANTIATE(unsigned short)
MZ_INSTANTIATE(int)
MZ_INSTANTIATE(unsigned)
MZ_INSTANTIATE(long)
MZ_INSTANTIATE(unsigned long)
MZ_INSTANTIATE(long long)
MZ_INSTANTIATE(unsigned long long)
MZ_INSTANTIATE(float)
MZ_INSTANTIATE(double)
#undef MZ_INSTANTIATE

}  // namespace mezzo
