// Divides the gradients of a model into buckets, each of which one all-reduce combines.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "../../tensor/core/dtype.h"
#include "../../tensor/device/device.h"

namespace mezzo::nn {

/** A gradient as far as its place in a bucket depends on it. */
struct BucketItem {
  DType dtype = DType::f32;  // in which it is reduced
  Device device = cpu;
  std::int64_t numel = 0;
  bool ends_bucket = false;  // with limits.by_items: the bucket is complete with it

  std::int64_t bytes() const { return numel * static_cast<std::int64_t>(item_size(dtype)); }
};

/** When a bucket is complete. */
struct BucketLimits {
  std::int64_t first_bytes = 1 << 20;  // of the first bucket
  std::int64_t bytes = 4 << 20;        // of the others
  bool by_items = false;               // only BucketItem::ends_bucket completes a bucket
};

/** The gradients of one bucket, of one dtype and device. */
struct BucketPlan {
  DType dtype = DType::f32;
  Device device = cpu;
  std::int64_t numel = 0;
  std::vector<std::size_t> items = {};  // in the order of `order`
  bool is_single = false;               // one large gradient, reduced in its own memory
};

/** Divides items, which become ready in the given order, into buckets. Buckets are in the order in
 *  which they become complete. A gradient of 1 MiB or more is a bucket of its own, so that it
 *  need not be copied. */
std::vector<BucketPlan> plan_buckets(std::span<const BucketItem> items,
                                     std::span<const std::size_t> order,
                                     const BucketLimits& limits);

}  // namespace mezzo::nn
