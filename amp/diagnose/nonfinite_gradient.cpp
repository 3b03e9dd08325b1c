#include "nonfinite_gradient.h"

#include <algorithm>
#include <cmath>

#include "../../optim/step/step_state.h"
#include "../../tensor/text/text.h"
#include "../scaling/gradients.h"
#include "../session_core.h"
#include "unobserved.h"

namespace mezzo::amp {

using optim::NonfiniteWord;

namespace {

constexpr std::size_t kPositions = std::size_t{1} << 16;

/** Returns the index of the element at an offset in memory of a dense tensor. Other tensors were
 *  copied to row-major order before the check. */
Shape place_in(const Tensor& x, std::int64_t element) {
  const Strides strides = same_dense_layout(x, x) ? x.strides() : contiguous_strides(x.shape());
  Shape place = x.shape();
  for (int d = 0; d < place.rank(); ++d)
    place[d] = x.shape()[d] == 1 ? 0 : element / strides[d] % x.shape()[d];
  return place;
}

/** Returns the element at a location in the gradient of a parameter, which is given by its position
 *  over all groups; empty if the optimizer has no such parameter. */
std::optional<NonfiniteGradient> gradient_at(const optim::Optimizer& optimizer,
                                             std::size_t position, NonfiniteWord word) {
  const auto* state = dynamic_cast<const AmpOptimizerState*>(optimizer.hooks());
  if (position >= optimizer.slots().size()) return std::nullopt;
  const Tensor& param = optimizer.slots()[position].param;
  const Tensor grad = param.grad();
  const std::string name = state ? state->core->name_of(param) : "";
  return NonfiniteGradient{name.empty() ? str("parameter ", position) : name,
                           place_in(grad.defined() ? grad : param, optim::element_of(word)),
                           optim::value_of(word)};
}

}  // namespace

std::string NonfiniteGradient::text() const {
  const std::string_view number = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return str(number, " at ", place, " of ", parameter);
}

std::optional<NonfiniteGradient> first_nonfinite_gradient(const optim::Optimizer& optimizer) {
  const Unobserved quiet;
  std::vector<AxpbyTensors> gradients;
  std::uint32_t position = 0;
  for (const optim::Slot& slot : optimizer.slots()) {
    if (const Tensor grad = slot.param.grad(); grad.defined())
      gradients.push_back({grad.detach(), {}, {}, position});
    ++position;
  }
  const auto found = optim::FoundInf::reset_on(cpu);
  unscale(std::move(gradients), found);
  if (!found.raised()) return std::nullopt;
  return gradient_at(optimizer, optim::number_of(found.location()), found.location());
}

std::string nonfinite_gradient_text(const optim::Optimizer& optimizer) noexcept {
  try {
    const std::optional<NonfiniteGradient> found = first_nonfinite_gradient(optimizer);
    return found ? found->text() : "";
  } catch (...) {
    return {};
  }
}

// ---- locations recorded by a device -------------------------------------------------------------

std::uint32_t gradient_number(std::size_t optimizer, std::size_t position) {
  const std::size_t number =
      position < kPositions ? optimizer * kPositions + position : std::size_t(-1);
  return static_cast<std::uint32_t>(std::min<std::size_t>(number, optim::kMostNumber));
}

std::string nonfinite_gradient_text(std::span<const std::shared_ptr<optim::StepState>> optimizers,
                                    NonfiniteWord location, const std::string& origin) noexcept {
  try {
    if (location == optim::kAllFinite) return {};
    const std::size_t number = optim::number_of(location), index = number / kPositions;
    const auto* const optimizer = index < optimizers.size() ? optimizers[index]->owner() : nullptr;
    const auto found =
        optimizer ? gradient_at(*optimizer, number % kPositions, location) : std::nullopt;
    return found ? found->text() + origin : origin;
  } catch (...) {
    return {};
  }
}

}  // namespace mezzo::amp
