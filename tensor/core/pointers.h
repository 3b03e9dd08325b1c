// The owning pointers of public headers, which cost compilers little: Owner<T>, the only owner of
// an object; Ref<T>, with a count inside the object; Shared<T>, in place of std::shared_ptr.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace mezzo {

/** Owns at most one object; it can be moved, not copied. T may be incomplete except where the
 *  object is destroyed or replaced. Used in place of std::unique_ptr in public headers, which costs
 *  g++ 1.4 MB and 4 ms for each T. */
template <class T> class Owner {
 public:
  Owner() = default;
  Owner(std::nullptr_t) {}  // NOLINT: converts like a plain pointer
  explicit Owner(T* object) : object_(object) {}
  Owner(Owner&& other) noexcept : object_(other.release()) {}
  ~Owner() { reset(); }

  Owner& operator=(Owner&& other) noexcept {
    reset(other.release());
    return *this;
  }

  /** Destroys the object, and owns `object` instead. */
  void reset(T* object = nullptr) {
    static_assert(sizeof(T) > 0, "the destructor must be visible");
    T* former = object_;
    object_ = object;
    if (former != object) delete former;
  }
  /** Returns the object without destroying it. */
  T* release() {
    T* object = object_;
    object_ = nullptr;
    return object;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

/** A std::shared_ptr<T> that costs compilers little: g++ needs 0.4 MB for each std::shared_ptr of
 *  another type, and all Shared have the same one. Used for members in public headers; T may be
 *  incomplete. */
template <class T> class Shared {
 public:
  Shared() = default;
  /** Shares the object of a std::shared_ptr. */
  template <class U>
  requires std::convertible_to<U*, T*>
  Shared(const std::shared_ptr<U>& object)  // NOLINT
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
