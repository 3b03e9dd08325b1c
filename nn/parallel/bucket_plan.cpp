#include "bucket_plan.h"

#include <algorithm>

namespace mezzo::nn {

namespace {

constexpr std::int64_t kSingleBytes = 1 << 20;

/** Adds items to the open bucket of their dtype and device, and collects complete buckets. */
class Planner {
 public:
  explicit Planner(const BucketLimits& limits) : limits_(limits) {}

  void add(std::size_t index, const BucketItem& item) {
    if (!limits_.by_items && item.bytes() >= kSingleBytes) {
      complete_.push_back({item.dtype, item.device, item.numel, {index}, true});
      return;
    }
    const auto bucket = open_bucket(item);
    bucket->items.push_back(index);
    bucket->numel += item.numel;
    const std::int64_t bytes = bucket->numel * static_cast<std::int64_t>(item_size(item.dtype));
    if (limits_.by_items ? item.ends_bucket
                         : bytes >= (complete_.empty() ? limits_.first_bytes : limits_.bytes)) {
      complete_.push_back(std::move(*bucket));
      open_.erase(bucket);
    }
  }

  std::vector<BucketPlan> finish() {
    // The bucket whose last item came first is complete first.
    std::move(open_.begin(), open_.end(), std::back_inserter(complete_));
    return std::move(complete_);
  }

 private:
  std::vector<BucketPlan>::iterator open_bucket(const BucketItem& item) {
    const auto found = std::find_if(open_.begin(), open_.end(), [&](const BucketPlan& bucket) {
      return bucket.dtype == item.dtype && bucket.device == item.device;
    });
    // Moved to the end, so that open buckets are in the order of their last items.
    if (found != open_.end())
      std::rotate(found, found + 1, open_.end());
    else
      open_.push_back({.dtype = item.dtype, .device = item.device});
    return open_.end() - 1;
  }

  BucketLimits limits_;
  std::vector<BucketPlan> open_, complete_;
};

}  // namespace

std::vector<BucketPlan> plan_buckets(std::span<const BucketItem> items,
                                     std::span<const std::size_t> order,
                                     const BucketLimits& limits) {
  Planner planner(limits);
  for (const std::size_t index : order) planner.add(index, items[index]);
  return planner.finish();
}

}  // namespace mezzo::nn
