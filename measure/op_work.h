// OpWork: the arithmetic and the memory traffic of an op, computed from its operands.
#pragma once

#include "../tensor/core/dispatch.h"

namespace mezzo {

/** Arithmetic of products (matrix products, convolutions, attention, recurrent layers) and memory
 *  traffic of an op. */
struct OpWork {
  double flops = 0;  // multiplications and additions; 0 for ops limited by memory bandwidth
  double bytes = 0;  // of operands and results, each counted once
  double steps = 0;  // time steps of a recurrent layer, each of which waits for the one before

  /** Adds the work of another op. */
  OpWork& operator+=(const OpWork& other) {
    flops += other.flops;
    bytes += other.bytes;
    steps += other.steps;
    return *this;
  }
};

/** Returns the work of an op that has run. A view moves no data, and the ops that a composite calls
 *  are counted themselves; both return 0. */
MZ_API OpWork op_work(const OpInfo& op, Inputs in, Inputs out);

/** Returns the work of the backward rule of an op, apart from the ops that the rule calls. `gy` are
 *  the gradients of its outputs, `gradients` those of its inputs, undefined where not requested.
 *  Only elementwise ops have such work: they read an operand or the result for each gradient. */
MZ_API OpWork backward_work(const OpInfo& op, Inputs gy, Inputs gradients);

}  // namespace mezzo
