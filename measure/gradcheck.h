// Finite-difference checks of first and second derivatives.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo {

/** Options of gradcheck and gradgradcheck. */
struct GradcheckOptions {
  double eps = 1e-6;       // step of the central difference
  double atol = 1e-6;      // passes if |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-5;      // tolerance relative to the numeric derivative
  bool fast_mode = false;  // compare one combination of the entries for each input: much faster
};

/** The result of a check. `report` names the first derivative that differs. */
struct GradcheckResult {
  bool ok = true;      // false if a derivative differs
  std::string report;  // the first derivative that differs, with both values; empty if ok
  /** Returns `ok`. */
  explicit operator bool() const { return ok; }
};

/** A function to check. */
using CheckedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/** Compares every entry of the Jacobian J of `f` at `inputs` with central differences. The default
 *  step and tolerances suit f64. Outputs that are not floating-point are skipped.
 *
 *  With fast_mode, as in PyTorch, compares u'Jv for each input: v is a direction of the input, u
 *  holds weights of the outputs, both pseudorandom from -1 to 1. The tolerance is the sum of those
 *  of the elements of Jv, weighted by |u|.
 *
 *  Errors: DtypeError or StateError for an input that requires a gradient and is not an f64
 *  leaf. */
MZ_API GradcheckResult gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                                 const GradcheckOptions& options = {});

/** Checks second derivatives: does a gradcheck of the gradient of `f`, with respect to `inputs` and
 *  to pseudorandom incoming gradients. */
MZ_API GradcheckResult gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                                     const GradcheckOptions& options = {});

}  // namespace mezzo
