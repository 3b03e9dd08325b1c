// Model<Derived>: the base of every layer and net. A call runs begin -> cast arguments -> forward
// -> cast result -> end, between
// the hooks before and after.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../tensor/core/has_member.h"
#include "cast_tree.h"
#include "module.h"

namespace mezzo::nn {

/** True if Self has a forward that accepts these arguments. */
template <class Self, class... Args>
concept ForwardTakes =
    requires(Self& self, Args&&... args) { self.forward(std::forward<Args>(args)...); };

namespace detail {

/** Function for map_tensors that applies the wrapper's input casts. */
struct CastIn {
  const CallWrapper& wrapper;

  Tensor operator()(const Tensor& x) const { return wrapper.cast_in(x); }
  template <SelfConverting T> T operator()(const T& v) const {
    return wrapper.dtype_in() ? v.to(*wrapper.dtype_in()) : v;
  }
};

/** Function for map_tensors that applies the wrapper's output casts. */
struct CastOut {
  const CallWrapper& wrapper;

  Tensor operator()(const Tensor& y) const { return wrapper.cast_out(y); }
  template <SelfConverting T> T operator()(const T& v) const {
    return wrapper.dtype_out() ? v.to(*wrapper.dtype_out()) : v;
  }
};

/** Scope that calls begin() and end() of a wrapper. */
class CallScope {
 public:
  explicit CallScope(CallWrapper& wrapper) : wrapper_(wrapper) { wrapper_.begin(); }
  ~CallScope() { wrapper_.end(); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  CallWrapper& wrapper_;
};

/** The type list Args with the argument at I as a const reference. */
template <std::size_t I, std::size_t J, class Arg>
using ConstantAt = std::conditional_t<I == J, const std::remove_reference_t<Arg>&, Arg>;

/** Returns true if forward takes the argument at I by value or const reference. An argument taken
 *  by non-const reference is an output and is not cast. */
template <std::size_t I, class Self, class... Args, std::size_t... J>
constexpr bool takes_constant(std::index_sequence<J...>) {
  return ForwardTakes<Self, ConstantAt<I, J, Args>...>;
}

template <bool kCast, class Arg> decltype(auto) cast_argument(Arg&& arg, const CastIn& cast) {
  if constexpr (kCast)
    return map_argument(std::forward<Arg>(arg), cast);
  else
    return std::forward<Arg>(arg);
}

template <class Result> Result cast_result(Result&& result, const CastOut& cast) {
  if constexpr (kMayHoldTensors<Result, CastOut> &&
                std::same_as<typename Owning<std::remove_cvref_t<Result>>::type,
                             std::remove_cvref_t<Result>>)
    map_in_place(result, cast);
  return std::forward<Result>(result);
}

template <class Self, class... Args, std::size_t... I>
auto wrapped_forward(Self& self, CallWrapper& wrapper, std::index_sequence<I...>, Args&&... args) {
  using Result = std::remove_cvref_t<decltype(self.forward(std::forward<Args>(args)...))>;
  const CallScope scope(wrapper);
  const CastIn in{wrapper};
  if constexpr (std::is_void_v<Result>)
    self.forward(
        cast_argument<takes_constant<I, Self, Args...>(std::index_sequence_for<Args...>{})>(
            std::forward<Args>(args), in)...);
  else
    return Result(cast_result(
        Result(self.forward(
            cast_argument<takes_constant<I, Self, Args...>(std::index_sequence_for<Args...>{})>(
                std::forward<Args>(args), in)...)),
        CastOut{wrapper}));
}

template <class Self, class... Args>
auto cast_and_call(Self& self, const ModuleState& state, Args&&... args) {
  if (state.call_wrapper)
    return wrapped_forward(self, *state.call_wrapper, std::index_sequence_for<Args...>{},
                           std::forward<Args>(args)...);
  return static_cast<std::remove_cvref_t<decltype(self.forward(std::forward<Args>(args)...))>>(
      self.forward(std::forward<Args>(args)...));
}

template <class Self, class... Args, std::size_t... I>
auto hooked_call(Self& self, const ModuleState& state, std::index_sequence<I...>, Args&&... args) {
  std::array<TensorsOfCall, sizeof...(Args)> arguments;
  (static_cast<void>(
       cast_argument<takes_constant<I, Self, Args...>(std::index_sequence_for<Args...>{})>(
           args, CastIn{arguments[I]})),
   ...);
  HookedCall hooked(self);
  hooked.before(arguments);
  const auto run = [&] {
    return cast_and_call(
        self, state,
        cast_argument<takes_constant<I, Self, Args...>(std::index_sequence_for<Args...>{})>(
            std::forward<Args>(args), CastIn{arguments[I]})...);
  };
  TensorsOfCall tensors;
  if constexpr (std::is_void_v<decltype(run())>) {
    run();
    hooked.after(tensors);
  } else {
    const CastOut out{tensors};
    auto result = cast_result(run(), out);
    hooked.after(tensors);
    return cast_result(std::move(result), out);
  }
}

template <class Self, class... Args>
auto call(Self& self, const ModuleState& state, Args&&... args) {
  const ModuleCall scope(state);
  if (!state.forward_pre_hooks.empty() || !state.forward_hooks.empty()) [[unlikely]]
    return hooked_call(self, state, std::index_sequence_for<Args...>{},
                       std::forward<Args>(args)...);
  return cast_and_call(self, state, std::forward<Args>(args)...);
}

}  // namespace detail

/** Base of layers and nets:
 *    struct Mlp : nn::Model<Mlp> {
 *      nn::Linear fc1 = add("fc1", nn::Linear{784, 256});
 *      nn::Linear fc2 = add("fc2", nn::Linear{256, 10});
 *      Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
 *    };
 *  forward may have any signature. Errors thrown inside it contain the path of the executing
 *  modules. */
template <class Derived> class Model : public Module {
 public:
  /** Constructs a new module of the type Derived, in training mode. */
  Model() : Module(detail::type_name<Derived>()) {}
  /** Constructs another handle to the same module. */
  Model(const Model& other) noexcept = default;
  /** Makes a layer's handle refer to another layer, such as in a constructor:
   *  `fc = add("fc", nn::Linear{8, 3})`. Does not compile for nets, the classes of a program.
   *  Errors: StateError for a handle to a layer that a net has added, because parameters() and
   *  save() would still use that one, and for a layer with children; replace() changes both. */
  Model& operator=(const Model& other) {
    static_assert(detail::type_name<Derived>().starts_with("mezzo::"),
                  "a net is not assigned: construct another handle, or exchange the layers, "
                  "net.replace(net.layer, nn::Linear{8, 3})");
    detail::check_assigned(*this, other);
    Module::operator=(other);
    return *this;
  }

  /** Calls forward, with the casts that mixed precision has attached. */
  template <class... Args>
  requires ForwardTakes<const Derived, Args...>
  auto operator()(Args&&... args) const {
    return detail::call(static_cast<const Derived&>(*this), state(), std::forward<Args>(args)...);
  }
  /** Does not compile: forward does not take these arguments. */
  template <class... Args>
  requires(!ForwardTakes<const Derived, Args...> && !ForwardTakes<Derived, Args...>)
  Tensor operator()(Args&&...) const {
    static_assert(mezzo::detail::has_forward<Derived>(),
                  "this model has no forward: write `Tensor forward(const Tensor& x) const`");
    static_assert(ForwardTakes<Derived, Args...>,
                  "the model's forward does not take these arguments, or is not public");
    return {};
  }
  /** As above, for a forward that is not const. */
  template <class... Args>
  requires(!ForwardTakes<const Derived, Args...> && ForwardTakes<Derived, Args...>)
  auto operator()(Args&&... args) {
    return detail::call(static_cast<Derived&>(*this), state(), std::forward<Args>(args)...);
  }
};

}  // namespace mezzo::nn
