// Owner<T>: the owning pointer of classes that hide their members from the header.
#pragma once

#include <cstddef>

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

}  // namespace mezzo
