// Slots: the named tensors of a module that values are saved from and loaded into. Private to nn/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "module.h"

namespace mezzo::nn::detail {

/** A name of a parameter or buffer, its tensor, and the rule of its module. */
struct Slot {
  std::string name;
  Tensor tensor;
  std::shared_ptr<const StateRule> rule;

  /** Returns the value that a state_dict holds, detached. It may share the tensor's memory. */
  Tensor saved_value() const { return (rule ? rule->save(tensor) : tensor).detach(); }
};

/** Returns every name of the tree: a module's parameters, then its buffers, then its children. A
 *  tensor registered twice appears under both names. */
std::vector<Slot> slots_of(const Module& module);

/** Implements Module::load_state_dict, with the name `op` in errors. */
LoadReport load_values(std::string_view op, const Module& module, const StateDict& values,
                       const LoadOptions& options);

}  // namespace mezzo::nn::detail
