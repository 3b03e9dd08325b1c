#include "late_leaves.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "../autograd/node.h"

namespace mezzo {

namespace {

struct Record {
  std::vector<Tensor> earlier;
  std::vector<LateLeaf> late;
};

/** All records. They hold leaves, and are forgotten when nothing else does. */
struct Records {
  std::mutex mutex;
  std::vector<Record> list;
  std::unordered_map<const TensorImpl*, int> held;  // the number of optimizers that hold a leaf
  std::atomic<bool> any_held{false}, any{false};

  bool holds(const Tensor& leaf) const { return held.count(leaf.impl()) > 0; }

  /** Removes leaves that only records hold, and records without one. */
  void forget_unused() {
    std::unordered_map<const TensorImpl*, int> holders;
    for (const Record& record : list) {
      for (const Tensor& leaf : record.earlier) ++holders[leaf.impl()];
      for (const LateLeaf& late : record.late) ++holders[late.leaf.impl()];
    }
    const auto unused = [&](const Tensor& leaf) {
      return leaf.impl()->owners() <= holders[leaf.impl()];
    };
    for (Record& record : list) {
      std::erase_if(record.earlier, unused);
      std::erase_if(record.late, [&](const LateLeaf& late) { return unused(late.leaf); });
    }
    std::erase_if(list, [](const Record& r) { return r.earlier.empty() || r.late.empty(); });
    any = !list.empty();
  }
};

Records& records() {
  static Records all;
  return all;
}

}  // namespace

void hold_leaves(std::span<const Tensor> leaves) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  for (const Tensor& leaf : leaves) all.held.try_emplace(leaf.impl(), 0);  // the rest cannot fail
  for (const Tensor& leaf : leaves) ++all.held[leaf.impl()];
  all.any_held = !all.held.empty();
}

void release_leaves(std::span<const Tensor> leaves) noexcept {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  for (const Tensor& leaf : leaves)
    if (const auto at = all.held.find(leaf.impl()); at != all.held.end() && --at->second <= 0)
      all.held.erase(at);
  all.any_held = !all.held.empty();
  if (all.any && all.held.empty()) all.list.clear();
  all.any = !all.list.empty();
}

bool is_held(const Tensor& leaf) {
  Records& all = records();
  if (!all.any_held.load(std::memory_order_relaxed) || !leaf.defined()) return all.any_held;
  const std::lock_guard lock(all.mutex);
  return all.holds(leaf);
}

bool late_leaves_exist() noexcept { return records().any.load(std::memory_order_relaxed); }

void record_late_leaves(std::span<const Tensor> earlier, std::span<const LateLeaf> late) {
  if (!is_held() || late.empty()) return;
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  Record record;
  std::unordered_set<const TensorImpl*> unheld;
  for (const Tensor& leaf : earlier)
    if (all.holds(leaf))
      record.earlier.push_back(leaf);
    else
      unheld.insert(leaf.impl());
  // Those that joined late themselves stand for the leaves that were there before.
  for (const Record& former : all.list)
    if (std::any_of(former.late.begin(), former.late.end(),
                    [&](const LateLeaf& leaf) { return unheld.count(leaf.leaf.impl()) > 0; }))
      record.earlier.insert(record.earlier.end(), former.earlier.begin(), former.earlier.end());
  if (record.earlier.empty()) return;
  record.late.assign(late.begin(), late.end());
  all.list.push_back(std::move(record));
  all.forget_unused();
}

std::vector<LateLeaf> late_leaves(const std::function<bool(const Tensor&)>& holds) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  std::vector<LateLeaf> found;
  for (Record& record : all.list) {
    std::erase_if(record.late, [&](const LateLeaf& late) { return all.holds(late.leaf); });
    if (std::any_of(record.earlier.begin(), record.earlier.end(), holds))
      found.insert(found.end(), record.late.begin(), record.late.end());
  }
  all.forget_unused();
  return found;
}

}  // namespace mezzo
