// A program's own callables as ops of a precision: their tensor arguments are cast as those of an op with that tag would be.
// Sees: nn/cast_tree.h, overrides.h's tags.
// Read next: functions.cpp, custom_function.h (callables with a backward of their own).
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "../nn/cast_tree.h"
#include "../tensor/dispatch.h"

namespace mezzo::amp {

namespace detail {

/** The casts of one call of a user's function; inactive where no casts are in force. */
class MZ_API ArgumentCasts {
 public:
  explicit ArgumentCasts(Precision tag);

  bool active() const { return active_; }
  /** Takes part in the choice of the widest dtype. */
  void note(const Tensor& x);
  Tensor cast(const Tensor& x) const;

 private:
  Precision tag_;
  bool active_;
  std::optional<DType> target_;
};

struct NoteArgument {
  ArgumentCasts& casts;
  Tensor operator()(const Tensor& x) const {
    casts.note(x);
    return x;
  }
};

struct CastArgument {
  const ArgumentCasts& casts;
  Tensor operator()(const Tensor& x) const { return casts.cast(x); }
};

template <class Arg> void note_argument(const Arg& arg, ArgumentCasts& casts) {
  if constexpr (nn::kMayHoldTensors<Arg, NoteArgument>) (void)nn::map_tensors(arg, NoteArgument{casts});
}

/** A callable with F's signature: one op of the tag, so what it calls runs with casts off. */
template <class F> struct TaggedFunction {
  F function;
  Precision tag;

  template <class... Args> decltype(auto) operator()(Args&&... args) const {
    ArgumentCasts casts(tag);
    if (!casts.active()) return function(std::forward<Args>(args)...);
    (note_argument(args, casts), ...);
    return call(nn::map_argument(std::forward<Args>(args), CastArgument{casts})...);
  }

 private:
  template <class... Args> decltype(auto) call(Args&&... args) const {
    const CastScope off(nullptr);
    return function(std::forward<Args>(args)...);
  }
};

}  // namespace detail

/** A callable with f's signature. Where casts are active it casts the floating tensors in all arguments, however nested, to the 16-bit type (weights through
 *  the cache) and runs f with casts off, as one op; elsewhere it is a plain call. Tensors that f captured are not cast: pass weights as arguments. */
template <class F> auto half_function(F f) { return detail::TaggedFunction<F>{std::move(f), Precision::low}; }
/** The same with casts to f32. */
template <class F> auto float_function(F f) {
  return detail::TaggedFunction<F>{std::move(f), Precision::full};
}
/** The same with casts to the widest dtype among the floating tensors of all arguments. */
template <class F> auto promote_function(F f) {
  return detail::TaggedFunction<F>{std::move(f), Precision::widest};
}

}  // namespace mezzo::amp
