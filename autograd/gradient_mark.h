// GradientMark: what mixed precision has done with the gradient of a leaf. It belongs to the
// gradient, not to an optimizer, because several optimizers may hold one parameter.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo {

/** The relation of a leaf's gradient to the loss scale. */
enum class GradientScale : std::uint8_t {
  plain,      // nothing is known: it is as backward passes and the program left it
  zero,       // zero_grad(false) has set it to zero
  unscaled,   // GradientMark::part of it was divided by the loss scale
  in_update,  // as unscaled, by the latest fused update, unless that was skipped
  in_master,  // it is scaled; the f32 master of the leaf has the unscaled gradient
  delayed,    // a scope with delay_unscale left it scaled
};

/** A mark on the gradient of a leaf. set_grad() with another tensor removes it. A backward pass
 *  that adds to a gradient marked `zero` or `in_master` removes the mark; it does not write to
 *  `part` of one that is_unscaled(), but adds in new memory. */
struct GradientMark {
  GradientScale scale = GradientScale::plain;
  Tensor part = {};           // the gradient when it was marked; undefined if plain
  std::uint32_t version = 0;  // of `part` then
};

/** Returns the mark of a leaf's gradient. */
MZ_API GradientMark gradient_mark(const Tensor& leaf);
/** Returns true for `unscaled` and `in_update`. */
inline bool is_unscaled(GradientScale scale) {
  return scale == GradientScale::unscaled || scale == GradientScale::in_update;
}
/** Returns GradientMark::scale of a leaf's gradient. */
MZ_API GradientScale gradient_scale(const Tensor& leaf);
/** Marks the present gradient of a leaf, if there is one. */
MZ_API void mark_gradient(const Tensor& leaf, GradientScale scale);
/** Sets a gradient with a mark that it had before. */
MZ_API void restore_gradient(const Tensor& leaf, const Tensor& grad, const GradientMark& mark);
/** Returns true if the program has written to the gradient or replaced it since it was marked. */
MZ_API bool written_since_mark(const Tensor& leaf);

/** Throws if a leaf's gradient is still multiplied by a loss scale. Errors: StateError. */
MZ_API void require_unscaled_gradient(const Tensor& leaf, std::string_view op);

namespace detail {
/** Returns zeros for a gradient that shares memory with other tensors of a graph, if it is to be
 * set to zero; else an undefined tensor. */
MZ_API Tensor replacement_of_gradient(const Tensor& leaf, bool set_to_none);
/** Removes a gradient, or sets it to zero in place where that is possible. */
MZ_API void clear_gradient(const Tensor& leaf, bool set_to_none);
}  // namespace detail

/** Removes the gradients of the leaves that `each(f)` calls f with, or sets them to zero. Gradients
 *  that share memory with other tensors of a graph are replaced by zeros. Changes nothing if memory
 *  runs out; removing allocates nothing. */
template <class Each> void zero_gradients(const Each& each, bool set_to_none) {
  std::vector<std::pair<Tensor, Tensor>> replaced;
  each([&](const Tensor& leaf) {
    const Tensor zeros = detail::replacement_of_gradient(leaf, set_to_none);
    if (zeros.defined()) replaced.emplace_back(leaf, zeros);
  });
  each([&](const Tensor& leaf) { detail::clear_gradient(leaf, set_to_none); });
  for (const auto& [leaf, zeros] : replaced) {
    leaf.set_grad(zeros);
    mark_gradient(leaf, GradientScale::zero);
  }
}

}  // namespace mezzo
