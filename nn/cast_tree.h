// map_tensors(): applies a function to every tensor inside nested containers, tuples, optionals,
// variants and structs.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo::nn {

/** A type that has a conversion like a tensor's: `T to(DType) const`. */
template <class T>
concept SelfConverting = requires(const T& v) {
  { v.to(DType::f32) } -> std::same_as<T>;
};

namespace detail {

/** A type that f maps to itself: a tensor, or another type that f has an overload for. */
template <class T, class F>
concept MappedBy = requires(const T& v, const F& f) {
  { f(v) } -> std::same_as<T>;
};

/** A type that map_tensors leaves unchanged. */
template <class T>
concept Atom = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> ||
               std::is_array_v<T> || std::convertible_to<const T&, std::string_view>;

template <class T>
concept Iterable = requires(T& v) {
  v.begin() != v.end();
  *v.begin();
};

template <class T> using ElementRef = decltype(*std::declval<T&>().begin());

/** A container whose elements have another type; excludes file paths, which iterate over paths. */
template <class T>
concept Range = Iterable<T> && !std::same_as<std::remove_cvref_t<ElementRef<T>>, T>;

/** A container that owns assignable elements: vector, array, list, deque. Excludes span, which
 *  does not own its elements. */
template <class T>
concept Sequence = Range<T> && Iterable<const T> && std::is_lvalue_reference_v<ElementRef<T>> &&
                   !std::is_const_v<std::remove_reference_t<ElementRef<T>>> &&
                   std::is_const_v<std::remove_reference_t<ElementRef<const T>>>;

template <class T>
concept MapLike = Range<T> && requires {
  typename T::key_type;
  typename T::mapped_type;
};

/** A container whose elements can be inserted but not assigned, such as set. */
template <class T>
concept SetLike =
    Range<T> && !MapLike<T> && requires(T& v, const std::remove_cvref_t<ElementRef<T>>& e) {
      typename T::key_type;
      v.clear();
      v.insert(v.end(), e);
    };

template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };

template <class T> inline constexpr bool kIsOptional = false;
template <class T> inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T> inline constexpr bool kIsVariant = false;
template <class... Ts> inline constexpr bool kIsVariant<std::variant<Ts...>> = true;

/** A struct whose members a free function lists:
 *  `auto fields(Output& o) { return std::tie(o.logits, o.hidden); }`. */
template <class T>
concept HasFields = requires(T& v) {
  { fields(v) } -> TupleLike;
};

template <class T, class F> constexpr bool may_hold_tensors();

template <class Tuple, class F, std::size_t... I>
constexpr bool any_may_hold(std::index_sequence<I...>) {
  return (may_hold_tensors<std::remove_cvref_t<std::tuple_element_t<I, Tuple>>, F>() || ...);
}

template <class Variant, class F, std::size_t... I>
constexpr bool any_alternative_may_hold(std::index_sequence<I...>) {
  return (may_hold_tensors<std::variant_alternative_t<I, Variant>, F>() || ...);
}

/** Returns true if a T may contain a value that f maps. */
template <class T, class F> constexpr bool may_hold_tensors() {
  if constexpr (MappedBy<T, F>)
    return true;
  else if constexpr (Atom<T>)
    return false;
  else if constexpr (MapLike<T>)
    return may_hold_tensors<typename T::key_type, F>() ||
           may_hold_tensors<typename T::mapped_type, F>();
  else if constexpr (Range<T>)
    return may_hold_tensors<std::remove_cvref_t<ElementRef<T>>, F>();
  else if constexpr (TupleLike<T>)
    return any_may_hold<T, F>(std::make_index_sequence<std::tuple_size_v<T>>{});
  else if constexpr (kIsOptional<T>)
    return may_hold_tensors<typename T::value_type, F>();
  else if constexpr (kIsVariant<T>)
    return any_alternative_may_hold<T, F>(std::make_index_sequence<std::variant_size_v<T>>{});
  else
    return HasFields<T>;
}

/** The type that map_tensors returns for a T: T itself, or a type that owns its elements if T is
 *  a view or holds references. */
template <class T> struct Owning {
  using type = T;
};
template <class T> struct Owning<std::span<T>> {
  using type = std::vector<std::remove_const_t<T>>;
};
template <class... Ts> struct Owning<std::tuple<Ts...>> {
  using type = std::tuple<std::remove_cvref_t<Ts>...>;
};
template <class A, class B> struct Owning<std::pair<A, B>> {
  using type = std::pair<std::remove_cvref_t<A>, std::remove_cvref_t<B>>;
};

template <class T> typename Owning<T>::type owned(const T& v) {
  if constexpr (Range<T> && !std::same_as<typename Owning<T>::type, T>)
    return {v.begin(), v.end()};
  else
    return typename Owning<T>::type(v);
}

template <class T, class F> void map_in_place(T& v, const F& f);

template <class T, class F> void map_keyed(T& v, const F& f) {
  if constexpr (may_hold_tensors<typename T::key_type, F>()) {
    T out = v;
    out.clear();
    for (const auto& entry : v) {
      auto copy = std::pair<typename T::key_type, typename T::mapped_type>(entry);
      map_in_place(copy, f);
      out.emplace(std::move(copy));
    }
    v = std::move(out);
  } else {
    for (auto& entry : v) map_in_place(entry.second, f);
  }
}

template <class T, class F> void map_set(T& v, const F& f) {
  T out = v;
  out.clear();
  for (const auto& element : v) {
    auto copy = element;
    map_in_place(copy, f);
    out.insert(out.end(), std::move(copy));
  }
  v = std::move(out);
}

/** Applies f inside v. The first matching rule applies. */
template <class T, class F> void map_in_place(T& v, const F& f) {
  if constexpr (std::is_const_v<T> || !may_hold_tensors<T, F>())
    return;
  else if constexpr (MappedBy<T, F>)
    v = f(std::as_const(v));
  else if constexpr (MapLike<T>)
    map_keyed(v, f);
  else if constexpr (Sequence<T>)
    for (auto& element : v) map_in_place(element, f);
  else if constexpr (SetLike<T>)
    map_set(v, f);
  else if constexpr (Range<T>)
    return;  // a view: it does not own its elements
  else if constexpr (TupleLike<T>)
    std::apply([&](auto&... element) { (map_in_place(element, f), ...); }, v);
  else if constexpr (kIsOptional<T>)
    v ? map_in_place(*v, f) : void();
  else if constexpr (kIsVariant<T>)
    std::visit([&](auto& alternative) { map_in_place(alternative, f); }, v);
  else
    std::apply([&](auto&... member) { (map_in_place(member, f), ...); }, fields(v));
}

}  // namespace detail

/** True if a T can hold tensors or other values that f maps. Depends on the type only. */
template <class T, class F>
inline constexpr bool kMayHoldTensors = detail::may_hold_tensors<std::remove_cvref_t<T>, F>();

/** Returns a copy of `value` in which every tensor x is replaced by f(x). The first matching rule
 *  applies:
 *  - types that f accepts (tensors, and other types that f has overloads for): f is applied;
 *  - strings, numbers, pointers and C arrays: unchanged;
 *  - maps: the values are mapped, and the keys if they can hold tensors;
 *  - vectors, lists, arrays and other containers: the elements are mapped;
 *  - tuples, pairs, optionals, variants: the contents are mapped;
 *  - structs with a free function `fields` that lists their members: the members are mapped;
 *  - anything else: unchanged.
 *  The result has the same type, except that a span becomes a vector and a tuple of references
 *  becomes a tuple of values. */
template <class T, class F> auto map_tensors(const T& value, const F& f) {
  auto out = detail::owned(value);
  detail::map_in_place(out, f);
  return out;
}

/** Returns the mapped copy of a call's argument if it can hold tensors; otherwise forwards it. */
template <class Arg, class F> decltype(auto) map_argument(Arg&& arg, const F& f) {
  if constexpr (kMayHoldTensors<Arg, F>)
    return map_tensors(std::as_const(arg), f);
  else
    return std::forward<Arg>(arg);
}

}  // namespace mezzo::nn
