// AnyDataset: a data set that returns one sample at a time, of any type with get() and size().
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "../../tensor/core/pointers.h"
#include "../../tensor/core/tensor.h"

namespace mezzo::data {

/** One sample of a data set: an input x and its target y, without the dimension of a batch. A data
 *  set without targets leaves y undefined. */
struct Sample {
  /** Input. */
  Tensor x, y;  // target
};

/** A type that AnyDataset holds: `std::int64_t size() const` is the number of samples,
 *  `Sample get(std::int64_t index) const` returns one of them. */
template <class T>
concept MapStyle = requires(const T& set, std::int64_t index) {
  { set.size() } -> std::convertible_to<std::int64_t>;
  { set.get(index) } -> std::convertible_to<Sample>;
};

/** A data set of any type that is MapStyle: Dataset, Subset, ConcatDataset, TransformedDataset,
 *  ImageFolder, or a type of your own. Copies share the set. Several threads call get() at the same
 *  time (BatchOptions::workers), so it must not change the set. */
class MZ_API AnyDataset {
 public:
  /** Takes over a data set. */
  template <MapStyle T>
  requires(!std::same_as<T, AnyDataset>)
  AnyDataset(T set)  // NOLINT: implicit on purpose
      : set_(std::make_shared<const Holder<T>>(std::move(set))) {}

  /** Returns the number of samples. */
  std::int64_t size() const { return set_->size(); }
  /** Returns a sample. Errors: those of the data set. */
  Sample get(std::int64_t index) const { return set_->get(index); }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual std::int64_t size() const = 0;
    virtual Sample get(std::int64_t index) const = 0;
  };
  template <class T> struct Holder final : Interface {
    explicit Holder(T held) : set(std::move(held)) {}
    std::int64_t size() const override { return set.size(); }
    Sample get(std::int64_t index) const override { return set.get(index); }
    T set;
  };

  Shared<const Interface> set_;
};

namespace detail {

/** Errors: IndexError that names the data set `op`, unless 0 <= index < size. */
MZ_API void require_sample(std::string_view op, std::int64_t index, std::int64_t size);

}  // namespace detail
}  // namespace mezzo::data
