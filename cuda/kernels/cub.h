// Calls of CUB: temporary storage, and operands that functions compute.
#pragma once

#include <iterator>
#include <type_traits>

#include "../../tensor/text/text.h"
#include "host_lines.h"
#include "kernel.h"

namespace mezzo::gpu {

/** Calls call(storage, bytes) twice, as CUB's functions want: without storage, which sets the
 * bytes, and with as much workspace. The result of a call is 0 where it succeeded. Errors:
 * CudaError, OutOfMemory. */
template <class Call>
void with_temporary(const Call& call, Device device,
                    runtime::Place place = runtime::Place::current()) {
  std::size_t bytes = 0;
  auto status = static_cast<int>(call(nullptr, bytes));
  const Tensor room = workspace(static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)), device);
  if (status == 0) status = static_cast<int>(call(room.raw_data(), bytes));
  runtime::check_launch(place);
  if (status != 0) fail<CudaError>("CUB", {.what = "a call failed", .got = str("status ", status)});
}

/** An operand of CUB whose element i is load(i). */
template <class Load> struct CubInput {
  using value_type = std::invoke_result_t<Load, std::int64_t>;
  using difference_type = std::int64_t;
  using pointer = const value_type*;
  using reference = value_type;
  using iterator_category = std::random_access_iterator_tag;

  Load load;
  std::int64_t at = 0;

  __device__ value_type operator[](difference_type i) const { return load(at + i); }
  __device__ value_type operator*() const { return load(at); }
  __host__ __device__ CubInput operator+(difference_type i) const { return {load, at + i}; }
};

/** A result of CUB of whose elements store(i, value) is called. */
template <class Value, class Store> struct CubOutput {
  struct Element {
    const Store& store;
    std::int64_t at;

    __device__ const Element& operator=(const Value& value) const {
      store(at, value);
      return *this;
    }
  };
  using value_type = Value;
  using difference_type = std::int64_t;
  using pointer = Value*;
  using reference = Element;
  using iterator_category = std::random_access_iterator_tag;

  Store store;
  std::int64_t at = 0;

  __device__ Element operator[](difference_type i) const { return {store, at + i}; }
  __device__ Element operator*() const { return {store, at}; }
  __host__ __device__ CubOutput operator+(difference_type i) const { return {store, at + i}; }
};

}  // namespace mezzo::gpu
