// map_tensors(): applies a function to every tensor inside a value: containers, tuples, optionals, variants, structs, however nested.
// Sees: tensor.
// Read next: model.h (its first user).
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

#include "../tensor/tensor.h"

namespace mezzo::nn {

/** Converts itself as a tensor does: `T to(DType) const`. */
template <class T>
concept SelfConverting = requires(const T& v) {
  { v.to(DType::f32) } -> std::same_as<T>;
};

namespace detail {

/** f takes a T as a whole and gives a T back: a tensor, or another type that f has an overload for. */
template <class T, class F>
concept TakenWhole = requires(const T& v, const F& f) {
  { f(v) } -> std::same_as<T>;
};

/** Never looked into. */
template <class T>
concept Atom = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> || std::is_array_v<T> ||
    std::convertible_to<const T&, std::string_view>;

template <class T>
concept Iterable = requires(T& v) {
  v.begin() != v.end();
  *v.begin();
};

template <class T> using ElementRef = decltype(*std::declval<T&>().begin());

/** Not a container of itself, as a file path is. */
template <class T>
concept Range = Iterable<T> && !std::same_as<std::remove_cvref_t<ElementRef<T>>, T>;

/** Owns elements that can be assigned: vector, array, list, deque; not a span, whose elements belong to someone else. */
template <class T>
concept Sequence = Range<T> && Iterable<const T> && std::is_lvalue_reference_v<ElementRef<T>> &&
                   !std::is_const_v<std::remove_reference_t<ElementRef<T>>> &&
                   std::is_const_v<std::remove_reference_t<ElementRef<const T>>>;

template <class T>
concept MapLike = Range<T> && requires {
  typename T::key_type;
  typename T::mapped_type;
};

/** Elements cannot be assigned, only put in: set. */
template <class T>
concept SetLike = Range<T> && !MapLike<T> && requires(T & v, const std::remove_cvref_t<ElementRef<T>>& e) {
  typename T::key_type;
  v.clear();
  v.insert(v.end(), e);
};

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

template <class T> inline constexpr bool kIsOptional = false;
template <class T> inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T> inline constexpr bool kIsVariant = false;
template <class... Ts> inline constexpr bool kIsVariant<std::variant<Ts...>> = true;

/** A struct whose author named its members: `auto fields(Output& o) { return std::tie(o.logits, o.hidden); }` beside it. */
template <class T>
concept HasFields = requires(T& v) {
  { fields(v) } -> TupleLike;
};

template <class T, class F> constexpr bool may_hold_tensors();

template <class Tuple, class F, std::size_t... I> constexpr bool any_may_hold(std::index_sequence<I...>) {
  return (may_hold_tensors<std::remove_cvref_t<std::tuple_element_t<I, Tuple>>, F>() || ...);
}

template <class Variant, class F, std::size_t... I>
constexpr bool any_alternative_may_hold(std::index_sequence<I...>) {
  return (may_hold_tensors<std::variant_alternative_t<I, Variant>, F>() || ...);
}

/** Whether map_tensors can find something for f in a T. */
template <class T, class F> constexpr bool may_hold_tensors() {
  if constexpr (TakenWhole<T, F>)
    return true;
  else if constexpr (Atom<T>)
    return false;
  else if constexpr (MapLike<T>)
    return may_hold_tensors<typename T::key_type, F>() || may_hold_tensors<typename T::mapped_type, F>();
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

/** What map_tensors gives back for a T: the same type, or one that owns its elements where T refers to another's. */
template <class T> struct Owning { using type = T; };
template <class T> struct Owning<std::span<T>> { using type = std::vector<std::remove_const_t<T>>; };
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

/** The first rule that fits decides (AMP.md 4.2). */
template <class T, class F> void map_in_place(T& v, const F& f) {
  if constexpr (std::is_const_v<T> || !may_hold_tensors<T, F>())
    return;
  else if constexpr (TakenWhole<T, F>)
    v = f(std::as_const(v));
  else if constexpr (MapLike<T>)
    map_keyed(v, f);
  else if constexpr (Sequence<T>)
    for (auto& element : v) map_in_place(element, f);
  else if constexpr (SetLike<T>)
    map_set(v, f);
  else if constexpr (Range<T>)
    return;  // a view: its elements are not ours to change
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

/** Whether a T can hold tensors, or anything else that f takes whole: decided by its type alone. */
template <class T, class F>
inline constexpr bool kMayHoldTensors = detail::may_hold_tensors<std::remove_cvref_t<T>, F>();

/** A copy of `value` in which every tensor x is f(x). The first rule that fits decides: what f takes whole (tensors; other types by its own
 *  overloads); strings, numbers, pointers and arrays stay; the values of maps, and keys that hold tensors; the elements of vectors, lists,
 *  arrays and other containers; tuples, pairs, optionals, variants; structs whose members a free function `fields` beside them lists; anything
 *  else stays. The type is kept, but a span becomes a vector and a tuple of references a tuple of values. */
template <class T, class F> auto map_tensors(const T& value, const F& f) {
  auto out = detail::owned(value);
  detail::map_in_place(out, f);
  return out;
}

/** An argument on its way to a call: mapped if it can hold tensors, else passed on as it is. */
template <class Arg, class F> decltype(auto) map_argument(Arg&& arg, const F& f) {
  if constexpr (kMayHoldTensors<Arg, F>)
    return map_tensors(std::as_const(arg), f);
  else
    return std::forward<Arg>(arg);
}

}  // namespace mezzo::nn
