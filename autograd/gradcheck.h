// Finite-difference checks of first and second derivatives.
// Sees: tensor.
// Read next: gradcheck.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../tensor/tensor.h"

namespace mezzo {

struct GradcheckOptions {
  double eps = 1e-6;   // step of the central difference
  double atol = 1e-6;  // |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-5;
};

/** Verdict of a check; `report` names the first derivative that is off. */
struct GradcheckResult {
  bool ok = true;
  std::string report;
  explicit operator bool() const { return ok; }
};

using CheckedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/** Compares every entry of the Jacobian of `f` at `inputs` with central differences. Inputs that require a gradient are f64 leaves (DtypeError,
 *  StateError otherwise); outputs that are not floating are passed over. The default step and tolerances are made for f64. */
MZ_API GradcheckResult gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                                 const GradcheckOptions& options = {});

/** The same for the gradient of `f`: checks second derivatives, with incoming gradients drawn at random and differentiated too. */
MZ_API GradcheckResult gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                                     const GradcheckOptions& options = {});

}  // namespace mezzo
