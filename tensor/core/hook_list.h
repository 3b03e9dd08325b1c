// HookList: functions that are called in order of registration and can be removed again.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "macros.h"

namespace mezzo {

/** Removes one registered hook. Dropping the handle keeps the hook, as in PyTorch. */
class MZ_API HookHandle {
 public:
  /** A handle to no hook. */
  HookHandle() = default;
  HookHandle(HookHandle&& other) noexcept = default;
  HookHandle& operator=(HookHandle&& other) noexcept = default;

  /** Removes the hook. Does nothing if it was removed already, or if the tensor or the graph that
   *  had it is gone. Must not run at the same time as a backward pass of another thread; a hook
   *  may remove itself. */
  void remove() {
    if (const std::shared_ptr<void> list = list_.lock()) erase_(list.get(), hook_);
    list_.reset();
  }

 private:
  template <class Hook> friend class HookList;
  using Erase = void (*)(void* list, const void* hook);
  HookHandle(std::weak_ptr<void> list, const void* hook, Erase erase)
      : list_(std::move(list)), hook_(hook), erase_(erase) {}

  std::weak_ptr<void> list_;
  const void* hook_ = nullptr;
  Erase erase_ = nullptr;
};

/** Hooks in order of registration. An empty list owns no memory. */
template <class Hook> class HookList {
 public:
  bool empty() const { return !hooks_ || list().empty(); }

  HookHandle add(Hook hook) {
    if (!hooks_) hooks_ = std::make_shared<Hooks>();
    list().push_back(std::make_shared<const Hook>(std::move(hook)));
    return {hooks_, list().back().get(), &erase};
  }

  /** Calls f with each hook. Hooks that are added or removed meanwhile count from the next call. */
  template <class F> void for_each(const F& f) const {
    if (empty()) return;
    const Hooks present = list();
    for (const auto& hook : present) f(*hook);
  }

 private:
  using Hooks = std::vector<std::shared_ptr<const Hook>>;

  Hooks& list() const { return *static_cast<Hooks*>(hooks_.get()); }
  static void erase(void* list, const void* hook) {
    std::erase_if(*static_cast<Hooks*>(list), [&](const auto& own) { return own.get() == hook; });
  }

  std::shared_ptr<void> hooks_;  // a Hooks; void spares users the compilation of its type
};

}  // namespace mezzo
