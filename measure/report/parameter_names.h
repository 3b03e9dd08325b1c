// ParameterNames: the names of the parameters of the models of a report.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../tensor/core/tensor.h"

namespace mezzo::amp::report {

/** A parameter of a model. */
struct ParameterName {
  std::string name;    // dotted, with the model's name before it if models are named
  std::string module;  // of the module that holds it, likewise
  std::string model;   // the model's name with a dot; empty for a single model
};

/** Names by tensor, and the paths of modules. */
class ParameterNames {
 public:
  void add_module(std::string path) { modules_.push_back(std::move(path)); }
  /** Returns the path of an executing module. `executed` lacks the names of containers that are not
   *  called, as in "0.attention" of "blocks.0.attention"; it is returned with its model if it fits
   *  no module or several. */
  std::string module_path(const std::string& model, const std::string& executed) const {
    const std::string whole = model + executed, end = "." + executed;
    const std::string* found = nullptr;
    int count = 0;
    for (const std::string& path : modules_) {
      if (path == whole) return whole;
      if (!path.starts_with(model) || !path.ends_with(end)) continue;
      found = &path;
      ++count;
    }
    return count == 1 ? *found : whole;
  }

  void add(const Tensor& parameter, ParameterName name) {
    names_[parameter.impl()] = std::move(name);
  }
  /** Returns null for a tensor that is no parameter. */
  const ParameterName* find(const Tensor& x) const {
    const auto found = x.defined() ? names_.find(x.impl()) : names_.end();
    return found == names_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<const void*, ParameterName> names_;
  std::vector<std::string> modules_;
};

}  // namespace mezzo::amp::report
