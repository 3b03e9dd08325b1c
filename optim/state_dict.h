// StateDict: the named tensors and numbers that an optimizer or a schedule saves in a checkpoint.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../tensor/core/tensor.h"

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

/** Saved state: the tensors can go into a safetensors file, the numbers into a JSON object. Keys
 *  of an optimizer: "<param>.exp_avg", "<param>.exp_avg_sq", "<param>.momentum_buffer",
 *  "<param>.master" among the tensors; "<param>.step", "param_groups.<k>.<option>",
 *  "param_groups.<k>.size" and "consecutive_skips" among the numbers. */
struct StateDict {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, double, std::less<>> scalars;
};

}  // namespace mezzo::optim
