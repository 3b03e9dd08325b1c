// Names: names of parameters, which key the state of an optimizer in a StateDict.
#pragma once

#include <string>
#include <vector>

#include "../tensor/core/state_dict.h"

namespace mezzo::optim {

/** A parameter and its name. */
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/** Names of parameters. Converts from any range of elements with a name and a tensor, such as
 *  model.named_parameters(). */
class Names : public std::vector<NamedTensor> {
 public:
  Names() = default;
  Names(std::initializer_list<NamedTensor> names) : vector(names) {}
  template <class Range>
  requires requires(const Range& r) { r.begin()->name, r.begin()->tensor; }
  Names(const Range& range) {  // NOLINT: conversion is the point
    for (const auto& entry : range) push_back({entry.name, entry.tensor});
  }
};

/** Keys of an optimizer: "<param>.exp_avg", "<param>.exp_avg_sq", "<param>.momentum_buffer",
 *  "<param>.master" among the tensors; "<param>.step", "param_groups.<k>.<option>",
 *  "param_groups.<k>.size" and "consecutive_skips" among the numbers. */
using mezzo::StateDict;

}  // namespace mezzo::optim
