// The engine: walks the graph from results back to leaves, without recursion.
// Sees: tensor, node.h.
// Read next: engine.cpp.
#pragma once

#include <concepts>
#include <vector>

#include "../tensor/tensor_list.h"
#include "node.h"

namespace mezzo {

struct GradOptions {
  bool create_graph = false;  // record the backward pass itself, for derivatives of derivatives
  bool retain_graph = false;  // keep what was saved, for another backward; implied by create_graph
  bool allow_unused =
      false;  // give an undefined gradient where an input does not take part, instead of throwing
};

/** Accumulates the gradients of `outputs` into the leaves they depend on. `gradients` are the incoming
 *  ones, each of its output's shape; undefined entries stand for 1 and demand a one-element output.
 *  A pass that throws changes no gradient. For that, what leaves gain is kept until the end: a pass
 *  that adds to gradients from before needs memory for a second set of them. Leaves with a hook of
 *  register_post_accumulate_grad_hook are the exception: theirs are added when the hook is due.
 *  Precision: runs with casts off, in the dtypes of the forward pass; each gradient has its tensor's dtype.
 *  Errors: StateError when an output requires no gradient or the graph was freed, ShapeError. */
MZ_API void backward(TensorList outputs, TensorList gradients, bool retain_graph = false,
                     bool create_graph = false);

/** Gradients of `outputs` (summed over them) with respect to `inputs`, leaves or not; nothing is accumulated.
 *  Errors: as backward; StateError when an input requires no gradient, or does not take part and allow_unused is off. */
MZ_API std::vector<Tensor> grad(TensorList outputs, TensorList inputs, const GradOptions& options = {},
                                TensorList gradients = {});
/** The same for one output and one input. A template, so that grad({y}, {x}) is the form for lists. */
template <std::same_as<Tensor> T>
Tensor grad(const T& output, const T& input, const GradOptions& options = {}, const Tensor& gradient = {}) {
  return grad(TensorList(output), TensorList(input), options,
              gradient.defined() ? TensorList(gradient) : TensorList())[0];
}

}  // namespace mezzo
