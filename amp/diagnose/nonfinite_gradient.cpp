#include "nonfinite_gradient.h"

#include <algorithm>
#include <cmath>

#include "../../optim/device_step_state.h"
#include "../../tensor/text/text.h"
#include "../scaling/amp_optimizer_state.h"
#include "unobserved.h"

namespace mezzo::amp {

using optim::NonfiniteLocation;

namespace {

constexpr std::size_t kPositions = std::size_t{1} << 16;

/** Returns the index of the element at an offset in memory of a dense tensor. Other tensors were
 *  copied to row-major order before the check. */
Shape place_in(const Tensor& x, std::int64_t element) {
  const bool dense = same_dense_layout(x, x);
  Shape place = x.shape();
  for (int d = place.rank() - 1; d >= 0; --d) {
    place[d] = x.shape()[d] == 1 ? 0 : (dense ? element / x.strides()[d] : element) % x.shape()[d];
    if (!dense) element /= x.shape()[d];
  }
  return place;
}

/** Describes a non-finite element of a tensor laid out as `x`: a parameter's or its gradient. */
NonfiniteGradient described(const optim::Optimizer& optimizer, const Tensor& param,
                            std::size_t position, const Tensor& x, const NonfiniteLocation& at) {
  const auto* link = dynamic_cast<const AmpOptimizerState*>(optimizer.hooks());
  const std::string name = link ? link->core->name_of(param) : "";
  return {name.empty() ? str("parameter ", position) : name, place_in(x, at.element), at.value};
}

}  // namespace

std::string NonfiniteGradient::text() const {
  const std::string_view number = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  return str(number, " at ", place, " of ", parameter);
}

std::optional<NonfiniteGradient> first_nonfinite_gradient(const optim::Optimizer& optimizer) {
  const Unobserved quiet;
  std::size_t position = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      if (slot.param.grad().defined()) {
        const Tensor grad = slot.param.grad().detach().contiguous();
        const auto found = optim::FoundInf::reset_on(grad.device());
        optim::check_finite(std::vector<optim::AxpbyTensors>{{grad, {}, {}}}, found);
        if (found.raised())
          return described(optimizer, slot.param, position, grad,
                           NonfiniteLocation::of(found.location()));
      }
      ++position;
    }
  return std::nullopt;
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
  return static_cast<std::uint32_t>(std::min<std::size_t>(number, NonfiniteLocation::kMostNumber));
}

std::string nonfinite_gradient_text(
    std::span<const std::shared_ptr<optim::DeviceStepState>> optimizers,
    NonfiniteLocation::Word location, const std::string& origin) noexcept {
  try {
    const NonfiniteLocation at = NonfiniteLocation::of(location);
    const std::size_t index = at.number / kPositions, position = at.number % kPositions;
    if (location == NonfiniteLocation::kNone) return {};
    const optim::Optimizer* const optimizer =
        index < optimizers.size() ? optimizers[index]->owner() : nullptr;
    std::size_t left = position;
    for (std::size_t group = 0; optimizer && group < optimizer->num_groups(); ++group) {
      const std::span<const optim::Slot> slots = optimizer->slots(group);
      if (left < slots.size())
        return described(*optimizer, slots[left].param, position, slots[left].param, at).text() +
               origin;
      left -= slots.size();
    }
    return origin;
  } catch (...) {
    return {};
  }
}

}  // namespace mezzo::amp
