// Walking the tree of a module: each module once, parents first, with its dotted name.
// Sees: module.h. Private to this room.
// Read next: module.cpp.
#pragma once

#include <string>
#include <unordered_set>

#include "module.h"

namespace mezzo::nn::detail {

inline std::string dotted(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

template <class F>
void walk(const Module& module, const std::string& path, std::unordered_set<const ModuleState*>& seen,
          F& visit) {
  if (!seen.insert(&module.state()).second) return;
  visit(path, module);
  for (const NamedModule& child : module.state().children)
    walk(child.module, dotted(path, child.name), seen, visit);
}

/** Calls visit(dotted name, module) for `root` and everything below. */
template <class F> void walk(const Module& root, F visit) {
  std::unordered_set<const ModuleState*> seen;
  walk(root, {}, seen, visit);
}

/** Calls visit(dotted name, owner, named tensor) for every tensor of the given list, under every name it was registered by. */
template <class F>
void walk_tensors(const Module& root, std::vector<NamedTensor> ModuleState::*list, F visit) {
  walk(root, [&](const std::string& path, const Module& module) {
    for (const NamedTensor& entry : module.state().*list) visit(dotted(path, entry.name), module, entry);
  });
}

}  // namespace mezzo::nn::detail
