// Helpers that the sources of GradScaler share.
#pragma once

#include <string_view>
#include <vector>

#include "grad_scaler.h"

namespace mezzo::amp {

/** Throws unless `holds`. Errors: ValueError that names `what`. */
void require_in_range(bool holds, std::string_view what, double got, std::string_view expected);
/** Throws unless the scale is positive and finite, also in f32. Errors: ValueError. */
void require_scale(std::string_view what, double scale);
/** Throws unless all options are in range. Errors: ValueError. */
void check(const GradScalerOptions& options);

/** Throws StateError: step() was called twice between updates. */
[[noreturn]] void refuse_second_step(std::string_view op);

/** Returns the gradients that are defined. */
std::vector<Tensor> gradients_of(const optim::Optimizer& optimizer);

/** An optimizer's entry in the scaler, created before gradients change. The destructor removes a
 *  new entry that was not set. */
class GradScaler::Entry {
 public:
  Entry(GradScaler& scaler, const optim::Optimizer& optimizer)
      : scaler_(scaler), key_(&optimizer), is_new_(scaler.optimizers_.try_emplace(key_).second) {}
  ~Entry() {
    if (is_new_) scaler_.optimizers_.erase(key_);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  void set(const PerOptimizer& state) {
    scaler_.optimizers_.find(key_)->second = state;
    is_new_ = false;
  }

 private:
  GradScaler& scaler_;
  const optim::Optimizer* key_;
  bool is_new_;
};

}  // namespace mezzo::amp
