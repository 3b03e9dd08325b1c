// SessionCore: the state that the models, optimizers and scopes of one session share. Users reach
// it through Session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../nn/module.h"
#include "../tensor/device/capture.h"
#include "autocast/casting.h"
#include "properties.h"
#include "scaling/master.h"
#include "scaling/scaler.h"

namespace mezzo::amp {

class AmpOptimizerState;

/** An overflow in a scope that was opened with the option not to act on it. The next checked exit
 *  of the same scaler adds it to its own result. */
struct DeferredOverflow {
  bool found = false;
  std::string first_nonfinite;  // of the first such overflow
  FoundInf flag;                // overflow flag of scopes that leave their result on the device
  bool on_device = false;       // such a scope had the option not to act on an overflow
  std::vector<std::weak_ptr<AmpOptimizerState>> optimizers;
};

/** State of one session. */
struct MZ_API SessionCore final : CastingSession {
  Properties properties;
  std::vector<LossScaler> scalers;
  std::vector<DeferredOverflow> deferred;  // one per scaler
  std::vector<nn::Module> models;
  std::vector<nn::Module> modules;  // the models and all their submodules when attached
  std::vector<Tensor> lowered;      // parameters and buffers that this session made 16-bit
  std::vector<AmpOptimizerState*> optimizers;  // currently attached
  Masters masters;
  int open_scopes = 0;
  bool told_about_low_gradients = false;
  bool defers_steps = false;  // from a deferred step to the next synchronous one: scales and
                              // overflows stay on the device

  bool enabled() const { return properties.enabled; }
  bool defers() const { return defers_steps || Capture::current(); }
  /** Logs text at verbosity 1 and above. */
  void print(std::string_view text) const;
  /** Returns the dotted name of a parameter in the session's models; empty if it is in none. */
  std::string name_of(const Tensor& param) const;
  /** Returns the text of NonfiniteGradient::text() for a location that a device recorded in one
   *  of this session's optimizers. */
  std::string name_of(const optim::NonfiniteLocation& noted) const;
};

}  // namespace mezzo::amp
