// What the files of GradScaler share: its checks, and an optimizer's gradients.
// Sees: grad_scaler.h.
// Read next: grad_scaler.cpp, grad_scaler_deferred.cpp, grad_scaler_state.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "grad_scaler.h"

namespace mezzo::amp {

// Errors of these: ValueError naming what is out of range.
void require_in_range(bool holds, std::string_view what, double got, std::string_view expected);
void require_scale(std::string_view what, double scale);
void check(const GradScalerOptions& options);

/** Errors: StateError. */
[[noreturn]] void refuse_second_step(std::string_view op);

/** Those that are there. */
std::vector<Tensor> gradients_of(const optim::Optimizer& optimizer);

/** An optimizer's entry, made before gradients move and taken away again unless it was set. */
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
