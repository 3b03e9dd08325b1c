// The optimizers that the campaigns of this folder go through, as factories: a new kind is one new line.
// Sees: mezzo.h.
// Read next: injected_overflows.cpp, cross_product.cpp.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <vector>

namespace optimizers {

using Made = std::unique_ptr<mezzo::optim::Optimizer>;
using Factory = std::function<Made(const std::vector<mezzo::Tensor>& params)>;

struct Kind {
  const char* name;
  Factory make;
};

template <class O, class Options> Factory factory(const Options& options) {
  return [options](const std::vector<mezzo::Tensor>& params) { return std::make_unique<O>(params, options); };
}

inline const std::vector<Kind>& kinds() {
  using namespace mezzo::optim;
  static const std::vector<Kind> all{
      {"SGD", factory<SGD>(SgdOptions{.lr = 0.1})},
      {"SGD with momentum",
       factory<SGD>(SgdOptions{.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true})},
      {"Adam", factory<Adam>(AdamOptions{.lr = 0.02, .weight_decay = 1e-3})},
      {"AdamW", factory<AdamW>(AdamWOptions{.lr = 0.02})},
  };
  return all;
}

}  // namespace optimizers
