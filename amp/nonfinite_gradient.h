// first_nonfinite_gradient: which parameter's gradient overflowed, and where, once a step was skipped for it.
// Sees: optim.
// Read next: divergence.h, scale_history.h (who tell it).
#pragma once

#include <optional>
#include <string>

#include "../optim/bad_value.h"
#include "../optim/optimizer.h"

namespace mezzo::amp {

/** An element of a gradient that is infinite or NaN. */
struct MZ_API NonfiniteGradient {
  std::string
      parameter;  // dotted name in the session's models; "parameter 3", counted over all groups, elsewhere
  Shape place;    // index of the element
  double value = 0;

  /** "inf at [3,17] of fc1.weight" */
  std::string text() const;
};

/** The first one among the gradients that are present, in the order of the groups; empty where all are finite. Gradients keep their infinities
 *  from the overflow until zero_grad(), so ask between a skipped step and that. Costs a pass over the gradients up to the one it names. */
MZ_API std::optional<NonfiniteGradient> first_nonfinite_gradient(const optim::Optimizer& optimizer);

/** Its text, or an empty one; also where memory is too short for the search: what is told about an error must not become one. */
MZ_API std::string nonfinite_gradient_text(const optim::Optimizer& optimizer) noexcept;

// ---- as devices note it -----------------------------------------------------------------------------------------------------

/** What a BadValue knows the gradient of a parameter by, counted over all groups, of one of a scaler's optimizers. */
std::uint32_t gradient_number(std::size_t optimizer, std::size_t position);
/** Which of them it belongs to. */
std::size_t optimizer_of(const optim::BadValue& noted);
/** "inf at [3,17] of fc1.weight", by the optimizer's parameters as they are now; empty where it has none of that number. */
std::string nonfinite_gradient_text(const optim::Optimizer& optimizer, const optim::BadValue& noted) noexcept;

}  // namespace mezzo::amp
