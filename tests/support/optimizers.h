// The optimizers that parametrised tests iterate over, as factories.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <vector>

namespace optimizers {

using Made = std::shared_ptr<mezzo::optim::Optimizer>;
using Factory = std::function<Made(const std::vector<mezzo::Tensor>& params)>;

struct Kind {
  const char* name;
  Factory make;
  bool measures_norms = false;   // the update uses norms of whole tensors
  bool tensor_by_tensor = true;  // no tensor's update depends on another tensor
};

template <class O, class Options> Factory factory(const Options& options) {
  return [options](const std::vector<mezzo::Tensor>& params) {
    return std::make_shared<O>(params, options);
  };
}

/** Returns a factory of optimizers wrapped in LARC. */
template <class O, class Options> Factory under_larc(const Options& options) {
  struct Pair {
    O inner;
    mezzo::optim::LARC larc{inner};
  };
  return [options](const std::vector<mezzo::Tensor>& params) {
    const auto pair = std::shared_ptr<Pair>(new Pair{O(params, options)});
    return Made(pair, &pair->inner);
  };
}

inline const std::vector<Kind>& kinds() {
  using namespace mezzo::optim;
  static const std::vector<Kind> all{
      {"SGD", factory<SGD>(SgdOptions{.lr = 0.1})},
      {"SGD with momentum",
       factory<SGD>(
           SgdOptions{.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true})},
      {"Adam", factory<Adam>(AdamOptions{.lr = 0.02, .weight_decay = 1e-3})},
      {"AdamW", factory<AdamW>(AdamWOptions{.lr = 0.02})},
      {"FusedSGD",
       factory<FusedSGD>(FusedSgdOptions{.lr = 0.02, .momentum = 0.9, .wd_after_momentum = true})},
      {"FusedAdam", factory<FusedAdam>(FusedAdamOptions{.lr = 0.02})},
      {"FusedAdagrad", factory<FusedAdagrad>(FusedAdagradOptions{.lr = 0.05})},
      {"Adam with amsgrad",
       factory<Adam>(AdamOptions{.lr = 0.02, .weight_decay = 1e-3, .amsgrad = true})},
      {"RMSprop", factory<RMSprop>(RMSpropOptions{.lr = 0.01, .momentum = 0.9, .centered = true})},
      {"Adafactor",
       factory<Adafactor>(AdafactorOptions{.lr = 0.02, .d = 1.5, .weight_decay = 1e-2}), true},
      {"Adagrad", factory<Adagrad>(AdagradOptions{
                      .lr = 0.05, .lr_decay = 0.1, .initial_accumulator_value = 0.1})},
      {"Adadelta", factory<Adadelta>(AdadeltaOptions{.eps = 1e-3})},
      {"Adamax", factory<Adamax>(AdamaxOptions{.lr = 0.02})},
      {"NAdam", factory<NAdam>(NAdamOptions{.lr = 0.02})},
      {"RAdam", factory<RAdam>(RAdamOptions{.lr = 0.02, .betas = {0.9, 0.9}})},
      {"FusedLAMB", factory<FusedLAMB>(FusedLambOptions{.lr = 0.02}), true, false},
      {"FusedLAMB without clipping",
       factory<FusedLAMB>(FusedLambOptions{.lr = 0.02, .max_grad_norm = 0}), true},
      {"FusedNovoGrad", factory<FusedNovoGrad>(FusedNovoGradOptions{.lr = 0.02}), true},
      {"LARC around SGD",
       under_larc<SGD>(SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3}), true},
  };
  return all;
}

}  // namespace optimizers
