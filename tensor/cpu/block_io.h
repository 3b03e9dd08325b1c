// BlockReader, BlockWriter: elements of any dtype as blocks of the type that arithmetic runs in; Scratch: room for such blocks.
// Sees: convert.h, ../op.h.
// Read next: reduce_driver.h, line_map.h.
#pragma once

#include <memory>

#include "../compute_type.h"
#include "../op.h"
#include "../row_major.h"
#include "convert.h"

namespace mezzo::cpu_kernels {

/** Elements of any dtype, read in blocks as Value. */
template <class Value> class BlockReader {
 public:
  BlockReader(const Tensor& x)  // NOLINT: a reader is made for one call
      : data_(static_cast<const char*>(x.raw_data())),
        item_(static_cast<std::int64_t>(item_size(x.dtype()))),
        dtype_(x.dtype()) {}
  bool direct() const { return dtype_ == dtype_of<Value>(); }
  /** n values from element `at` on: in place where no conversion is needed, else in `buffer`. */
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

/** Results of any dtype, written in blocks from Value. */
template <class Value> class BlockWriter {
 public:
  BlockWriter(const Tensor& y)  // NOLINT: a writer is made for one call
      : data_(static_cast<char*>(y.raw_data())),
        item_(static_cast<std::int64_t>(item_size(y.dtype()))),
        dtype_(y.dtype()) {}
  bool direct() const { return dtype_ == dtype_of<Value>(); }
  /** Where n results for element `at` on may be computed: their place itself, or `buffer`. */
  Value* target(std::int64_t at, Value* buffer) const {
    return direct() ? reinterpret_cast<Value*>(data_) + at : buffer;
  }
  /** Brings n results that were computed at target(at, buffer) to their place. */
  void write(std::int64_t at, std::int64_t n, const Value* buffer) const {
    if (!direct()) convert(dtype_of<Value>(), buffer, dtype_, data_ + at * item_, n);
  }
  /** Brings n results from elsewhere to their place. */
  void copy(std::int64_t at, std::int64_t n, const Value* values) const {
    convert(dtype_of<Value>(), values, dtype_, data_ + at * item_, n);
  }

 private:
  char* data_;
  std::int64_t item_;
  DType dtype_;
};

/** Uninitialised room for n values; on the stack when small. */
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
