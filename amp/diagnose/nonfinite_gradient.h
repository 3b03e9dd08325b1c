// first_nonfinite_gradient: finds the first non-finite element among an optimizer's gradients.
// See also: ../scaling/scale.h (reports it).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "../../optim/optimizer.h"
#include "../../optim/step/step_record.h"

namespace mezzo::amp {

/** An infinite or NaN element of a gradient. */
struct MZ_API NonfiniteGradient {
  /** Dotted name in the session's models; if it has none, "parameter 3", over all groups. */
  std::string parameter;
  Shape place;       // index of the element
  double value = 0;  // inf, -inf or NaN

  /** Returns a text such as "inf at [3,17] of fc1.weight". */
  std::string text() const;
};

/** Returns the first non-finite element among the gradients, in the order of the groups; empty if
 *  all are finite. Call it between a skipped step and zero_grad(), which removes the gradients.
 *  Costs a pass over the gradients; waits for their devices. */
MZ_API std::optional<NonfiniteGradient> first_nonfinite_gradient(const optim::Optimizer& optimizer);

/** Returns the text of first_nonfinite_gradient(); empty if there is none or the search fails.
 *  Never throws, since it is used to build error messages. */
MZ_API std::string nonfinite_gradient_text(const optim::Optimizer& optimizer) noexcept;

// ---- locations recorded by a device -------------------------------------------------------------

/** Returns the number of a gradient in a NonfiniteWord. `optimizer` is the optimizer's index in its
 *  session or scaler, `position` the parameter's, counted over all groups. */
std::uint32_t gradient_number(std::size_t optimizer, std::size_t position);
/** Returns a text such as "inf at [3,17] of fc1.weight", followed by `origin`, for the word of a
 *  location, with the present parameters of its optimizer. Returns `origin` if that has no
 *  parameter of that number, or nothing if there is no location. Never throws. */
std::string nonfinite_gradient_text(std::span<const std::shared_ptr<optim::StepState>> optimizers,
                                    optim::NonfiniteWord location,
                                    const std::string& origin) noexcept;

}  // namespace mezzo::amp
