// ParameterNames: the names of the parameters of the models of a report.
#pragma once

#include <string>
#include <unordered_map>

#include "../../tensor/core/tensor.h"

namespace mezzo::amp::report {

/** A parameter of a model. */
struct ParameterName {
  std::string name;    // dotted, with the model's name before it if models are named
  std::string module;  // of the module that holds it, likewise
  std::string model;   // the model's name with a dot; empty for a single model
};

/** Names by tensor. */
class ParameterNames {
 public:
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
};

}  // namespace mezzo::amp::report
