// Layers whose options are named where they are constructed: nn::LeakyReLU{.negative_slope = 0.2}.
#pragma once

#include <concepts>
#include <type_traits>

#include "model.h"

// A designated initialiser names no base class, so g++ reports the base of such a layer as a
// missing initialiser in the program that constructs it.
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

namespace mezzo::nn {

/** Base of a layer that is an aggregate of its options, which are its members:
 *    nn::ELU{}, nn::ELU{.alpha = 0.5}, nn::ELU{0.5}, nn::ELU{EluOptions{.alpha = 0.5}}.
 *  kFirst points to the option that a value without a name sets. */
template <class Layer, auto kFirst> class NamedOptions;

template <class Layer, class Options, class First, First Options::* kFirst>
class NamedOptions<Layer, kFirst> : public Model<Layer> {
 public:
  /** The default options. */
  NamedOptions() = default;
  /** The default options but for the first one. */
  template <std::convertible_to<First> T>
  requires(!std::is_same_v<T, Options> &&
           !(std::is_floating_point_v<T> && std::is_integral_v<First>))
  NamedOptions(const T& first) {  // NOLINT
    given_.*kFirst = static_cast<First>(first);
  }
  /** The given options. */
  NamedOptions(const Options& options) : given_(options) {}  // NOLINT
  /** Constructs another handle to the same layer. */
  NamedOptions(const NamedOptions&) = default;
  /** Rebinds the handle to another layer. */
  NamedOptions& operator=(const NamedOptions&) = default;

 protected:
  /** The options that the layer's members begin with. */
  Options given_{};
};

/** Member between the base and the options of a layer: nn::Softplus{2, 20} does not compile,
 * because only the first option can be given without its name. */
struct NameTheOthers {
  NameTheOthers() = default;
  /** Does not compile: more than one option without a name. */
  template <class T> NameTheOthers(const T&) {  // NOLINT
    static_assert(std::is_same_v<T, NameTheOthers>,
                  "name the options: nn::Softplus{.beta = 2, .threshold = 20}");
  }
};

/** Last member of such a layer: what is done when its options are known. */
struct Constructed {};

}  // namespace mezzo::nn
