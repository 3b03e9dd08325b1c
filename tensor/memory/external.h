// Tensors over memory of the caller, without copies: from_blob, and DLPack, the structure by which
// NumPy, PyTorch, JAX and others exchange tensors.
#pragma once

#include <functional>
#include <optional>

#include "../core/tensor.h"

/** DLPack's structure; <dlpack/dlpack.h> of the DLPack project defines it. */
struct DLManagedTensor;

namespace mezzo {

/** Options of from_blob. */
struct BlobOptions {
  DType dtype = DType::f32;             // of the elements
  std::optional<Strides> strides = {};  // in elements; none: row-major
  std::function<void()> release = {};   // called once when the last tensor over the memory is gone
};

/** Returns a tensor over memory of the CPU, without a copy: ops read and write that memory. It has
 *  to stay valid until options.release is called, or for as long as tensors over it exist.
 *  Shape: `shape`, any. The memory does not count in memory_stats().
 *  Errors: ValueError for a null address (unless there are no elements), one that does not fit the
 *  alignment of the dtype, and a negative size or stride; ShapeError unless there is a stride for
 *  each size. After an error `release` is not called. */
MZ_API Tensor from_blob(void* data, const Shape& shape, const BlobOptions& options = {});

/** Returns a tensor over the memory of a DLPack tensor of the CPU, without a copy, and takes
 *  ownership: its deleter is called when the last tensor over the memory is gone. Strides that no
 *  element needs, as those of dimensions of size 1, may be any number.
 *  Errors: ValueError for null; DeviceError for another device; DtypeError for a type without a
 *  DType (complex numbers, u16, vectors, ...); as from_blob. After an error the caller still owns
 *  it. Source: DLPack 0.8, github.com/dmlc/dlpack. */
MZ_API Tensor from_dlpack(DLManagedTensor* source);

/** Returns a DLPack tensor over this tensor's memory, without a copy. It keeps the memory alive
 *  until its deleter is called, which the consumer does.
 *  Errors: StateError for a tensor that requires a gradient; ValueError for an undefined one;
 *  DeviceError for a tensor on a GPU, whose work would have to be waited for. */
MZ_API DLManagedTensor* to_dlpack(const Tensor& x);

}  // namespace mezzo
