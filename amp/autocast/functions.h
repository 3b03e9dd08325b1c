// half_function, float_function and promote_function: callables of the user whose tensor arguments
// are cast like those of an op with that precision tag.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "../../nn/cast_tree.h"
#include "../../tensor/core/dispatch.h"

namespace mezzo::amp {

namespace detail {

/** The casts of the arguments of one call; inactive where casts are off. */
class MZ_API ArgumentCasts {
 public:
  explicit ArgumentCasts(Precision tag);

  bool active() const { return active_; }
  /** Includes x in the choice of the widest dtype. */
  void note(const Tensor& x);
  /** Returns x in the target dtype if it is eligible. */
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
  if constexpr (nn::kMayHoldTensors<Arg, NoteArgument>)
    (void)nn::map_tensors(arg, NoteArgument{casts});
}

/** A callable with F's signature that runs as one op of the tag: F itself runs with casts off. */
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

/** Returns a callable with f's signature. Where casts are active, it casts the floating-point
 *  tensors in all arguments, nested ones included, to the 16-bit type (weights through the cache)
 *  and runs f with casts off, as one op; elsewhere it only calls f. Tensors that f captured are
 *  not cast: pass weights as arguments. */
template <class F> auto half_function(F f) {
  return detail::TaggedFunction<F>{std::move(f), Precision::low};
}
/** Like half_function, with casts to f32. */
template <class F> auto float_function(F f) {
  return detail::TaggedFunction<F>{std::move(f), Precision::f32};
}
/** Like half_function, with casts to the widest dtype among the floating-point tensors of all
 *  arguments. */
template <class F> auto promote_function(F f) {
  return detail::TaggedFunction<F>{std::move(f), Precision::promote};
}

}  // namespace mezzo::amp
