// The memory layout of DLPack's structures, version 0.8: the ABI that all its consumers share.
// Source: github.com/dmlc/dlpack.
#pragma once

#include <cstdint>

namespace mezzo::dlpack {

inline constexpr std::int32_t kCpu = 1;  // DLDeviceType

/** DLDataTypeCode. */
enum class TypeCode : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  boolean = 6
};

struct DataType {
  TypeCode code;
  std::uint8_t bits;
  std::uint16_t lanes;  // elements of a vector; 1 for a number
  friend bool operator==(const DataType&, const DataType&) = default;
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct TensorLayout {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

}  // namespace mezzo::dlpack

struct DLManagedTensor {
  mezzo::dlpack::TensorLayout dl_tensor;
  void* manager_ctx;                       // belongs to the deleter
  void (*deleter)(DLManagedTensor* self);  // may be null
};
