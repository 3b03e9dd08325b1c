// The places of a module that values are read from and written to.
// Sees: module.h. Private to this room.
// Read next: load.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "module.h"

namespace mezzo::nn::detail {

/** One name of a parameter or buffer. */
struct Slot {
  std::string name;
  Tensor tensor;
  std::shared_ptr<const StateRule> rule;

  /** What a state_dict shows, outside the graph; it may share the tensor's memory. */
  Tensor saved_value() const { return (rule ? rule->save(tensor) : tensor).detach(); }
};

/** Every name of the tree, a tensor registered twice under both; a module's parameters before its buffers before its children. */
std::vector<Slot> slots_of(const Module& module);

/** Module::load_state_dict, under the name `op` in errors. */
LoadReport load_values(std::string_view op, const Module& module, const StateDict& values,
                       const LoadOptions& options);

}  // namespace mezzo::nn::detail
