// ObjectList, Parts: the argument types by which functions take one or several objects.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/core/macros.h"
#include "../tensor/core/pointers.h"

namespace mezzo::amp {

namespace detail {

/** A Base, or a wrapper that converts to a reference to one, as LARC does to its optimizer. */
template <class Base, class T>
concept IsA = std::convertible_to<std::remove_reference_t<T>&, Base&>;

/** A raw or smart pointer, or a reference_wrapper. */
template <class Base, class T>
concept RefersTo = requires(T& v) { requires IsA<Base, decltype(*v)>; } || requires(T& v) {
  requires IsA<Base, decltype(v.get())> && !std::is_pointer_v<decltype(v.get())>;
};

/** An object of type Base, or something that refers to one. */
template <class Base, class T>
concept OneOf = IsA<Base, T> || RefersTo<Base, T>;

/** Returns the address of the object that v is or refers to. */
template <class Base, class T> Base* address(T& v) {
  if constexpr (IsA<Base, T>)
    return &static_cast<Base&>(v);
  else if constexpr (requires { requires IsA<Base, decltype(*v)>; })
    return &*v;
  else
    return &v.get();
}

/** A range whose elements are or refer to objects of type Base. */
template <class Base, class T>
concept RangeOf = requires(T& v) {
  v.begin() != v.end();
  requires OneOf<Base, std::remove_reference_t<decltype(*v.begin())>>;
};

/** True for a tuple or pair whose elements all are or refer to objects of type Base. */
template <class Base, class T> inline constexpr bool kTupleOf = false;
template <class Base, class... Ts>
inline constexpr bool kTupleOf<Base, std::tuple<Ts...>> =
    (OneOf<Base, std::remove_reference_t<Ts>> && ...);
template <class Base, class A, class B>
inline constexpr bool kTupleOf<Base, std::pair<A, B>> =
    OneOf<Base, std::remove_reference_t<A>> && OneOf<Base, std::remove_reference_t<B>>;

}  // namespace detail

/** Addresses of objects that derive from Base. Converts from one object, {a, b}, std::tie(a, b),
 *  or a range of objects, pointers or references. Does not own the objects; valid during the call
 *  that it is an argument of. */
template <class Base> class ObjectList : public std::vector<Base*> {
  using List = std::vector<Base*>;

 public:
  ObjectList() = default;
  template <class T>
  requires(detail::IsA<Base, T>)
  ObjectList(T&& object) : List{&static_cast<Base&>(object)} {}  // NOLINT: conversion is the point
  template <class T>
  requires(!detail::IsA<Base, T> && !std::same_as<std::remove_cvref_t<T>, ObjectList> &&
           detail::RangeOf<Base, std::remove_reference_t<T>>)
  ObjectList(T&& range) {  // NOLINT
    for (auto&& entry : range) this->push_back(detail::address<Base>(entry));
  }
  template <class T>
  requires(!detail::IsA<Base, T> && detail::kTupleOf<Base, std::remove_cvref_t<T>>)
  ObjectList(T&& tuple) {  // NOLINT
    std::apply([this](auto&... entry) { (this->push_back(detail::address<Base>(entry)), ...); },
               tuple);
  }
  ObjectList(std::initializer_list<std::reference_wrapper<Base>> objects) {
    for (const std::reference_wrapper<Base>& object : objects) this->push_back(&object.get());
  }
};

/** One object, or several by name: `.model = net`, `.model = {{"generator", g},
 *  {"discriminator", d}}`. Does not own the objects: they must outlive it. */
template <class T> class MZ_API Parts {
 public:
  /** An object and its name. */
  struct Entry {
    /** Refers to the object, without copying it. */
    Entry(std::string its_name, T& it) : name(std::move(its_name)), object(&it) {}
    std::string name;  // empty for a single object
    T* object;         // never null; not owned
  };

  /** Contains no objects. */
  Parts() = default;
  /** Refers to a single object, without a name. */
  template <std::derived_from<T> U>
  Parts(U& one) : Parts(&static_cast<T&>(one)) {}  // NOLINT: conversion is the point
  /** Refers to several objects by name. */
  Parts(std::initializer_list<Entry> several);

  /** Returns the address of the first Entry, in the order given. */
  const Entry* begin() const;
  /** Returns the address past the last Entry. */
  const Entry* end() const;
  /** Returns the number of objects. */
  std::size_t size() const;
  /** Returns true if it refers to no object, as each part of a new Training. */
  bool empty() const { return size() == 0; }

 private:
  explicit Parts(T* one);

  struct Entries;  // hidden: a vector of each type slows down the compilation of every user
  Shared<const Entries> entries_;  // null: none
};

}  // namespace mezzo::amp
