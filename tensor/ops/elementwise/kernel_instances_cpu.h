// Instantiates the CPU kernels of every op in a list. The build makes a source of
// kernels_cpu.cpp.in for each list, which includes this.
#pragma once

#include <array>

#include "../../core/elementwise.h"
#include "../../cpu/elementwise_kernel.h"

namespace mezzo::cpu_kernels {

template <class Op> constexpr DerivativeFn derivative_kernel() {
  if constexpr (Op::traits.differentiable)
    return &elementwise_derivative<Op>;
  else
    return nullptr;
}

/** Returns the addresses of all kernels of the ops in the list. A source file that stores them in a
 *  variable makes the compiler emit the kernels there. */
template <class... Ops>
constexpr std::array<KernelFn, 2 * sizeof...(Ops)> all_kernels(type_list<Ops...>) {
  return {&elementwise<Ops>..., derivative_kernel<Ops>()...};
}

}  // namespace mezzo::cpu_kernels
