// SessionCore: what models, optimizers and scopes of one session share. Users see it through Session.
// Sees: properties.h, scaler.h, master.h, casting.h; nn, optim.
// Read next: session.h, conversion.h (models), optimizer_link.h (optimizers), scale_loss.h (scopes).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../nn/module.h"
#include "../tensor/capture.h"
#include "casting.h"
#include "master.h"
#include "properties.h"
#include "scaler.h"

namespace mezzo::amp {

class OptimizerLink;

/** An overflow seen by a scope that was told not to act on it: it joins the next checked exit of the same scaler. */
struct DeferredOverflow {
  bool found = false;
  std::string culprit;     // of the first such overflow
  FoundInf flag;           // of scopes that leave their answer on the device: what they found
  bool on_device = false;  // and such a scope was told not to act on it
  std::vector<std::weak_ptr<OptimizerLink>> optimizers;
};

struct MZ_API SessionCore final : CastingSession {
  Properties properties;
  std::vector<LossScaler> scalers;
  std::vector<DeferredOverflow> deferred;  // one per scaler
  std::vector<nn::Module> models;
  std::vector<nn::Module> modules;         // the models and all that is in them, as it was attached
  std::vector<Tensor> lowered;             // parameters and buffers this session made 16-bit
  std::vector<OptimizerLink*> optimizers;  // attached now
  Masters masters;
  int open_scopes = 0;
  bool told_about_low_gradients = false;
  bool defers_steps =
      false;  // scales and overflows stay on the device: from a deferred step to the next one that waits

  bool enabled() const { return properties.enabled; }
  bool defers() const { return defers_steps || Capture::current(); }
  /** Prints at verbosity 1 and above. */
  void print(std::string_view text) const;
  /** Dotted name of a parameter in the session's models; empty when it is in none. */
  std::string name_of(const Tensor& param) const;
  /** As NonfiniteGradient::text(), of what a device has noted of this session's optimizers. */
  std::string name_of(const optim::BadValue& noted) const;
};

}  // namespace mezzo::amp
