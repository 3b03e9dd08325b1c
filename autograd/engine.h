// backward and grad: passes over the graph from results to leaves, without recursion.
#pragma once

#include <concepts>
#include <vector>

#include "../tensor/core/tensor.h"
#include "node.h"

namespace mezzo {

/** Options of grad. */
struct GradOptions {
  bool create_graph = false;  // record the backward pass, for higher derivatives
  bool retain_graph = false;  // keep saved tensors for another pass; implied by create_graph
  bool allow_unused = false;  // return undefined gradients of unused inputs instead of throwing
};

/** Accumulates the gradients of `outputs` into the leaves they depend on. `gradients` are the
 *  incoming gradients, each of its output's shape; an undefined one means 1 and requires an output
 *  of one element.
 *  A pass that throws changes no gradient: what is added to leaves is stored until the end of the
 *  pass. A pass that adds to existing gradients therefore needs memory for a second set of them.
 *  Leaves with a hook of register_post_accumulate_grad_hook are the exception: their gradients are
 *  added when the hook runs.
 *  Precision: runs with casts off, in the dtypes of the forward pass; each gradient has its
 *  tensor's dtype, at the end of the pass. 16-bit gradients of more than two uses are summed in f32
 *  and rounded once. Unlike PyTorch, which rounds after each addition.
 *  Errors: StateError when an output requires no gradient or the graph was freed; ShapeError. */
MZ_API void backward(TensorList outputs, TensorList gradients, bool retain_graph = false,
                     bool create_graph = false);

/** Returns the gradients of `outputs` (summed over them) with respect to `inputs`, leaves or not.
 *  Accumulates nothing.
 *  Errors: as backward; StateError when an input requires no gradient, or is unused and
 *  allow_unused is off. */
MZ_API std::vector<Tensor> grad(TensorList outputs, TensorList inputs,
                                const GradOptions& options = {}, TensorList gradients = {});
namespace detail {
MZ_API Tensor grad_of_one(const Tensor& output, const Tensor& input, const GradOptions& options,
                          const Tensor& gradient);
}  // namespace detail

/** Returns the gradient for one output and one input. It is a template so that grad({y}, {x})
 *  selects the form for lists. */
template <std::same_as<Tensor> T>
Tensor grad(const T& output, const T& input, const GradOptions& options = {},
            const Tensor& gradient = {}) {
  return detail::grad_of_one(output, input, options, gradient);
}

}  // namespace mezzo
