#include "external.h"

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "../core/checked_size.h"
#include "../core/shape.h"
#include "../text/text.h"
#include "dlpack_layout.h"

namespace mezzo {

namespace {

/** Returns the number of bytes from the first element to the end of the last one. Errors:
 * ValueError if there cannot be as many. */
std::size_t extent(const Shape& shape, const Strides& strides, DType dtype) {
  WideSize last = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return 0;
    last += WideSize{shape[i] - 1} * strides[i];
  }
  const WideSize bytes = (last + 1) * static_cast<WideSize>(item_size(dtype));
  if (last < 0 || bytes > PTRDIFF_MAX)
    fail<ValueError>("from_blob", {.what = "memory of this size does not exist",
                                   .got = str("shape ", shape, ", strides ", strides)});
  return static_cast<std::size_t>(bytes);
}

void check_layout(const Shape& shape, const Strides& strides) {
  if (strides.rank() != shape.rank())
    fail<ShapeError>("from_blob", {.what = "there is a stride for each size",
                                   .got = str("strides ", strides, " for shape ", shape)});
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] < 0 || strides[i] < 0)
      fail<ValueError>("from_blob", {.what = "a size or stride is negative",
                                     .got = str("shape ", shape, ", strides ", strides)});
}

/** Returns the strides, with those that no element needs replaced: of dimensions of size 1, and all
 *  of a tensor without elements. Other libraries leave any number there. */
Strides needed_strides(const Shape& shape, Strides strides) {
  const Strides dense = strides_in(MemoryFormat::contiguous, shape);
  bool is_empty = false;
  for (const std::int64_t size : shape) is_empty |= size == 0;
  for (int i = 0; i < shape.rank(); ++i)
    if (is_empty || shape[i] == 1) strides[i] = dense[i];
  return strides;
}

void check_address(const void* data, std::size_t bytes, DType dtype) {
  if (!data && bytes > 0)
    fail<ValueError>("from_blob", {.what = "the address is null",
                                   .got = str(bytes, " bytes at null"),
                                   .expected = "memory of the CPU"});
  const auto remainder = reinterpret_cast<std::uintptr_t>(data) % item_size(dtype);
  if (remainder != 0)
    fail<ValueError>("from_blob",
                     {.what = "the address does not fit the alignment of the dtype",
                      .got = str("an address with remainder ", remainder),
                      .expected = str("a multiple of ", item_size(dtype), " for ", dtype)});
}

using dlpack::DataType;
using dlpack::TypeCode;

/** DLPack's types, in the order of DType. */
constexpr std::array<DataType, kNumDTypes> kTypes{{
    {TypeCode::boolean, 8, 1},
    {TypeCode::unsigned_integer, 8, 1},
    {TypeCode::integer, 32, 1},
    {TypeCode::integer, 64, 1},
    {TypeCode::floating, 16, 1},
    {TypeCode::bfloat, 16, 1},
    {TypeCode::floating, 32, 1},
    {TypeCode::floating, 64, 1},
}};

DType dtype_from(const DataType& type) {
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i] == type) return static_cast<DType>(i);
  fail<DtypeError>("from_dlpack", {.what = "there is no such dtype",
                                   .got = str("type code ", static_cast<int>(type.code), ", ",
                                              int{type.bits}, " bits, ", int{type.lanes}, " lanes"),
                                   .expected = "bool, u8, i32, i64, f16, bf16, f32 or f64"});
}

/** A DLPack tensor with the tensor whose memory it shows. */
struct Exported {
  Tensor tensor;
  Shape shape;
  Strides strides;
  DLManagedTensor managed;
};

}  // namespace

Tensor from_blob(void* data, const Shape& shape, const BlobOptions& options) {
  const Strides strides =
      options.strides ? *options.strides : strides_in(MemoryFormat::contiguous, shape);
  check_layout(shape, strides);
  const std::size_t bytes = extent(shape, strides, options.dtype);
  check_address(data, bytes, options.dtype);
  auto impl = make_ref<TensorImpl>();
  impl->shape = shape;
  impl->strides = strides;
  impl->dtype = options.dtype;
  impl->refresh();
  impl->storage = make_ref<Storage>(data, bytes, options.release);
  return Tensor(std::move(impl));
}

Tensor from_dlpack(DLManagedTensor* source) {
  if (!source) fail<ValueError>("from_dlpack", {.what = "the DLPack tensor is null"});
  const dlpack::TensorLayout& from = source->dl_tensor;
  if (from.ndim < 0)
    fail<ValueError>("from_dlpack",
                     {.what = "the number of dimensions is negative", .got = str(from.ndim, "")});
  if (from.device.type != dlpack::kCpu)
    fail<DeviceError>("from_dlpack", {.what = "the memory is not the CPU's",
                                      .got = str("DLPack device type ", from.device.type),
                                      .expected = str("type ", dlpack::kCpu),
                                      .hint = "copy it to the CPU first"});
  const auto rank = static_cast<std::size_t>(from.ndim);
  BlobOptions options{.dtype = dtype_from(from.dtype), .release = [source] {
                        if (source->deleter) source->deleter(source);
                      }};
  const Shape shape(std::span<const std::int64_t>(from.shape, rank));
  if (from.strides)
    options.strides =
        needed_strides(shape, Strides(std::span<const std::int64_t>(from.strides, rank)));
  return from_blob(static_cast<char*>(from.data) + from.byte_offset, shape, options);
}

DLManagedTensor* to_dlpack(const Tensor& x) {
  if (x.requires_grad())
    fail<StateError>(
        "to_dlpack",
        {.what = "a consumer would not see the gradient", .got = str(x), .hint = "use x.detach()"});
  if (!(x.device() == cpu))
    fail<DeviceError>(
        "to_dlpack",
        {.what = "the memory is not the CPU's", .got = str(x), .hint = "use x.to(cpu)"});
  x.impl()->storage->expose();
  auto* exported =
      new Exported{.tensor = x, .shape = x.shape(), .strides = x.strides(), .managed = {}};
  exported->managed = {
      .dl_tensor = {.data = x.raw_data(),
                    .device = {dlpack::kCpu, 0},
                    .ndim = x.dim(),
                    .dtype = kTypes[static_cast<std::size_t>(x.dtype())],
                    .shape = exported->shape.begin(),
                    .strides = exported->strides.begin(),
                    .byte_offset = 0},
      .manager_ctx = exported,
      .deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); }};
  return &exported->managed;
}

}  // namespace mezzo
