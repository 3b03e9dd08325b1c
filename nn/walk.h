// Traversal of a module's tree: each module once, parents first, with its dotted name. Private to
// nn/.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "module.h"

namespace mezzo::nn::detail {

/** Returns "path.name", or the name if the path is empty. */
inline std::string dotted(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/** Calls visit(dotted name, module) for `root` and all modules below. Does not recurse, so that a
 *  tree may have any depth. */
template <class F> void walk(const Module& root, F visit) {
  struct Level {
    const Module* module;
    std::size_t next_child, path_length;
  };
  std::unordered_set<const ModuleState*> seen{&root.state()};
  std::string path;
  visit(std::as_const(path), root);
  std::vector<Level> levels{{&root, 0, 0}};
  while (!levels.empty()) {
    Level& level = levels.back();
    const std::vector<NamedModule>& children = level.module->state().children;
    path.resize(level.path_length);
    if (level.next_child == children.size()) {
      levels.pop_back();
      continue;
    }
    const NamedModule& child = children[level.next_child++];
    if (!seen.insert(&child.module.state()).second) continue;
    if (!path.empty()) path += '.';
    path += child.name;
    visit(std::as_const(path), child.module);
    levels.push_back({&child.module, 0, path.size()});
  }
}

/** Calls visit(dotted name, owner, named tensor) for every tensor of the given list, once for each
 *  registered name. */
template <class F>
void walk_tensors(const Module& root, std::vector<NamedTensor> ModuleState::* list, F visit) {
  walk(root, [&](const std::string& path, const Module& module) {
    for (const NamedTensor& entry : module.state().*list)
      visit(dotted(path, entry.name), module, entry);
  });
}

}  // namespace mezzo::nn::detail
