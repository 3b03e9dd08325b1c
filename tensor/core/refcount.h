// Ref<T>: an owning pointer to an object with an intrusive reference count.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace mezzo {

/** Base of objects owned through Ref. Counting is thread-safe; the derived class must protect
 *  everything else. */
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  /** Adds one ownership. */
  void retain() const { owners_.fetch_add(1, std::memory_order_relaxed); }
  /** Drops one ownership. Returns true if it was the last, so that the caller must destroy the
   *  object. */
  bool release() const { return owners_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /** Returns the number of owners. */
  std::int32_t owners() const { return owners_.load(std::memory_order_relaxed); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::int32_t> owners_{0};
};

/** Destroys an object without owners. Overloaded where plain deletion would recurse too deeply. */
template <class T> void destroy(T* object) { delete object; }

/** An owning pointer: copies share the object, the last one destroys it. */
template <class T> class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT: converts like a plain pointer
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U> Ref(const Ref<U>& other) : Ref(other.get()) {}  // NOLINT: upcast
  ~Ref() { reset(); }

  Ref& operator=(const Ref& other) {
    if (other.object_) other.object_->retain();
    T* former = object_;
    object_ = other.object_;
    if (former && former->release()) destroy(former);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    if (this != &other) {
      reset();
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }

  void reset() {
    T* object = std::exchange(object_, nullptr);
    if (object && object->release()) destroy(object);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/** Constructs a T owned by a Ref. */
template <class T, class... Args> Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace mezzo
