// Shared<T>: the pointer to what all handles of a kind share.
#pragma once

#include <concepts>
#include <memory>

namespace mezzo {

/** A std::shared_ptr<T> that costs compilers little: g++ needs 0.4 MB for each std::shared_ptr of
 *  another type, and all Shared have the same one. Used for members in public headers; T may be
 *  incomplete. */
template <class T> class Shared {
 public:
  Shared() = default;
  /** Shares the object of a std::shared_ptr. */
  template <class U>
  requires std::convertible_to<U*, T*> Shared(const std::shared_ptr<U>& object)  // NOLINT
      : object_(object, untyped(object.get())) {}

  /** Returns a std::shared_ptr to the object. */
  std::shared_ptr<T> ptr() const { return {object_, get()}; }
  /** Drops this share of the object. */
  void reset() { object_.reset(); }

  T* get() const { return static_cast<T*>(object_.get()); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  explicit operator bool() const { return get() != nullptr; }

 private:
  static void* untyped(T* object) { return const_cast<void*>(static_cast<const void*>(object)); }

  std::shared_ptr<void> object_;
};

}  // namespace mezzo
