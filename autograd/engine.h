// The engine: walks the graph from results back to leaves, without recursion.
// Sees: node.h.
// Read next: engine.cpp.
#pragma once

#include <span>
#include <vector>

#include "node.h"

namespace mezzo {

struct GradOptions {
  bool create_graph = false;  // record the backward pass itself, for derivatives of derivatives
  bool retain_graph = false;  // keep what was saved, for another backward; implied by create_graph
  bool allow_unused =
      false;  // give an undefined gradient where an input does not take part, instead of throwing
};

/** Accumulates the gradients of `outputs` into the leaves they depend on. `gradients` are the incoming ones, each of its output's shape;
 *  undefined entries stand for 1 and demand a one-element output.
 *  Precision: runs with casts off, in the dtypes of the forward pass; each gradient has its tensor's dtype.
 *  Errors: StateError when an output requires no gradient or the graph was freed, ShapeError. */
MZ_API void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
                     bool retain_graph = false, bool create_graph = false);

/** Gradients of `outputs` (summed over them) with respect to `inputs`, leaves or not; nothing is accumulated.
 *  Errors: as backward; StateError when an input requires no gradient, or does not take part and allow_unused is off. */
MZ_API std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                const GradOptions& options = {}, std::span<const Tensor> gradients = {});
/** The same for one output and one input. */
MZ_API Tensor grad(const Tensor& output, const Tensor& input, const GradOptions& options = {},
                   const Tensor& gradient = {});

}  // namespace mezzo
