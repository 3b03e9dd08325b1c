#include "nonfinite_gradient.h"

#include <algorithm>
#include <cmath>

#include "../../tensor/text/text.h"
#include "../scaling/amp_optimizer_state.h"
#include "all_finite.h"
#include "unobserved.h"

namespace mezzo::amp {

namespace {

Shape place_in(const Shape& shape, std::int64_t index) {
  Shape place = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    place[d] = index % shape[d];
    index /= shape[d];
  }
  return place;
}

std::string name_in(const optim::Optimizer& optimizer, const Tensor& param, std::size_t position) {
  const auto* link = dynamic_cast<const AmpOptimizerState*>(optimizer.hooks());
  const std::string name = link ? link->core()->name_of(param) : "";
  return name.empty() ? str("parameter ", position) : name;
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
      const Tensor grad = slot.param.grad();
      if (!finite(grad)) {
        const std::vector<double> values = grad.to_vector<double>();
        const auto bad =
            std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
        return NonfiniteGradient{name_in(optimizer, slot.param, position),
                                 place_in(grad.shape(), bad - values.begin()), *bad};
      }
      ++position;
    }
  return std::nullopt;
}

namespace {

/** Returns the text of what `find` returns; empty if that is nothing or it throws. */
template <class F> std::string text_or_empty(const F& find) noexcept {
  try {
    const std::optional<NonfiniteGradient> found = find();
    return found ? found->text() : "";
  } catch (...) {
    return {};
  }
}

}  // namespace

std::string nonfinite_gradient_text(const optim::Optimizer& optimizer) noexcept {
  return text_or_empty([&] { return first_nonfinite_gradient(optimizer); });
}

// ---- locations recorded by a device -------------------------------------------------------------

namespace {

constexpr std::size_t kPositions = std::size_t{1} << 16;

/** Returns the index of the element at an offset in memory of a dense tensor. Other tensors were
 *  copied to row-major order before the check. */
Shape place_in_memory(const Tensor& x, std::int64_t element) {
  if (!same_dense_layout(x, x)) return place_in(x.shape(), element);
  Shape place = x.shape();
  for (int d = 0; d < place.rank(); ++d)
    place[d] = x.shape()[d] == 1 ? 0 : element / x.strides()[d] % x.shape()[d];
  return place;
}

double value_of(optim::NonfiniteLocation::Kind kind) {
  constexpr double values[] = {NAN, HUGE_VAL, -HUGE_VAL};
  return values[static_cast<std::size_t>(kind)];
}

}  // namespace

std::uint32_t gradient_number(std::size_t optimizer, std::size_t position) {
  const std::size_t number =
      position < kPositions ? optimizer * kPositions + position : std::size_t(-1);
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(number, optim::NonfiniteLocation::kMostNumber));
}

std::size_t optimizer_of(const optim::NonfiniteLocation& noted) {
  return noted.number / kPositions;
}

std::string nonfinite_gradient_text(const optim::Optimizer& optimizer,
                                    const optim::NonfiniteLocation& noted) noexcept {
  return text_or_empty([&]() -> std::optional<NonfiniteGradient> {
    const std::size_t position = noted.number % kPositions;
    std::size_t left = position;
    for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
      const std::span<const optim::Slot> slots = optimizer.slots(group);
      if (left < slots.size())
        return NonfiniteGradient{name_in(optimizer, slots[left].param, position),
                                 place_in_memory(slots[left].param, noted.element),
                                 value_of(noted.kind)};
      left -= slots.size();
    }
    return std::nullopt;
  });
}

}  // namespace mezzo::amp
