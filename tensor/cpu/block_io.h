// BlockReader, BlockWriter: convert blocks of elements of any dtype from and to the compute type;
// Scratch: a buffer for such blocks.
#pragma once

#include <memory>

#include "../core/compute_type.h"
#include "../core/op.h"
#include "../core/row_major.h"
#include "convert.h"

namespace mezzo::cpu_kernels {

/** Reads elements of any dtype in blocks of Value. */
template <class Value> class BlockReader {
 public:
  BlockReader(const Tensor& x)  // NOLINT: implicit; a reader is created per call
      : data_(static_cast<const char*>(x.raw_data())),
        item_(static_cast<std::int64_t>(item_size(x.dtype()))),
        dtype_(x.dtype()) {}
  bool direct() const { return dtype_ == dtype_of<Value>(); }
  DType dtype() const { return dtype_; }
  /** Returns the address of element `at`, whose type must be V. */
  template <class V> const V* in_place(std::int64_t at) const {
    return reinterpret_cast<const V*>(data_) + at;
  }
  /** Returns n values from element `at` on: in place if no conversion is needed, else in
   *  `buffer`. */
  const Value* read(std::int64_t at, std::int64_t n, Value* buffer) const {
    const char* from = data_ + at * item_;
    if (direct()) return reinterpret_cast<const Value*>(from);
    convert(dtype_, from, dtype_of<Value>(), buffer, n);
    return buffer;
  }

 private:
  const char* data_;
  std::int64_t item_;
  DType dtype_;
};

/** Writes blocks of Value to elements of any dtype. */
template <class Value> class BlockWriter {
 public:
  BlockWriter(const Tensor& y)  // NOLINT: implicit; a writer is created per call
      : data_(static_cast<char*>(y.raw_data())),
        item_(static_cast<std::int64_t>(item_size(y.dtype()))),
        dtype_(y.dtype()) {}
  bool direct() const { return dtype_ == dtype_of<Value>(); }
  /** Returns where to compute n results from element `at` on: the destination, or `buffer` if they
   *  need conversion. */
  Value* target(std::int64_t at, Value* buffer) const {
    return direct() ? reinterpret_cast<Value*>(data_) + at : buffer;
  }
  /** Writes n results that were computed at target(at, buffer) to the destination. */
  void write(std::int64_t at, std::int64_t n, const Value* buffer) const {
    if (!direct()) convert(dtype_of<Value>(), buffer, dtype_, data_ + at * item_, n);
  }
  /** Converts n results from `values` to the destination. */
  void copy(std::int64_t at, std::int64_t n, const Value* values) const {
    convert(dtype_of<Value>(), values, dtype_, data_ + at * item_, n);
  }

 private:
  char* data_;
  std::int64_t item_;
  DType dtype_;
};

/** An uninitialised buffer of n values; on the stack if small. */
template <class Value> class Scratch {
 public:
  explicit Scratch(std::int64_t n) {
    if (n > kInline) heap_ = std::make_unique_for_overwrite<Value[]>(static_cast<std::size_t>(n));
  }
  Value* data() { return heap_ ? heap_.get() : inline_; }

 private:
  static constexpr std::int64_t kInline = 4096;
  alignas(64) Value inline_[kInline];
  std::unique_ptr<Value[]> heap_;
};

}  // namespace mezzo::cpu_kernels
