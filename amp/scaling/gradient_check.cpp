#include "gradient_check.h"

#include <algorithm>
#include <array>

#include "../../tensor/comm/comm_error.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::NonfiniteWord;

namespace {

/** Raises a flag from the host, for a non-finite value at a location. */
void raise(const FoundInf& found, NonfiniteWord location) {
  const NonfiniteWord first = std::max({location, optim::kUnknownLocation, found.location()});
  upload(found.word, &first, sizeof first);
}

}  // namespace

const FoundInf& move_to(Device device, FoundInf& found) {
  if (found.word.defined() && found.word.device() == device) return found;
  const FoundInf moved = FoundInf::reset_on(device);
  if (found.word.defined()) moved.word.copy_(found.word);
  return found = moved;
}

void unscale(std::vector<GradientSum> sums, const FoundInf& found) {
  while (!sums.empty()) {
    const GradientSum first = sums.front();
    const Device device = first.tensors.x.device();
    const auto rest = std::stable_partition(sums.begin(), sums.end(), [&](const GradientSum& item) {
      return item.tensors.x.device() == device && item.a == first.a && item.b == first.b &&
             item.fresh == first.fresh;
    });
    std::vector<optim::AxpbyTensors> items;
    for (auto item = sums.begin(); item != rest; ++item) items.push_back(item->tensors);
    const bool checked = first.fresh && found.word.defined();
    const bool elsewhere = checked && device != found.word.device();
    const FoundInf here = elsewhere ? FoundInf::reset_on(device) : checked ? found : FoundInf{};
    if (first.tensors.out.defined())
      optim::axpby(items, first.a, first.b, here);
    else
      optim::check_finite(items, here);
    if (elsewhere && here.raised()) raise(found, here.location());
    sums.erase(sums.begin(), rest);
  }
}

// ---- several processes --------------------------------------------------------------------------

namespace {

// One process's overflow state, as numbers for the exchange.
constexpr std::size_t kFlags = 0;    // sum of kRaised and kHasGradients
constexpr std::size_t kScale = 1;    // the loss scale
constexpr std::size_t kChecks = 2;   // the scaler's number of checks
constexpr std::size_t kLocal = 3;    // 1: its own gradients overflowed; 0: not; -1: not known
constexpr std::size_t kNumbers = 4;  // in all
constexpr unsigned kRaised = 1, kHasGradients = 2;

void require_one_scale(std::span<const double> all) {
  for (std::size_t r = kNumbers; r < all.size(); r += kNumbers)
    if (all[r + kScale] != all[kScale] || all[r + kChecks] != all[kChecks])
      fail<CommError>("amp", {.what = "the loss scale differs",
                              .got = str(all[kScale], " on rank 0 after ", all[kChecks],
                                         " checks, ", all[r + kScale], " on rank ", r / kNumbers,
                                         " after ", all[r + kChecks], " checks")});
}

/** Returns where the first process was that had the overflow in its own gradients. */
std::string origin_of(std::span<const double> all) {
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    if (all[r + kLocal] < 0) return {};
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    if (all[r + kLocal] > 0) return str(", first on rank ", r / kNumbers);
  return ", on no rank alone: in the sum";
}

double found_local_overflow(const Receivers& receivers) {
  bool is_known = true, any = false;
  for (GradientReceiver* const receiver : receivers) {
    const std::optional<bool> one = receiver->found_local_overflow();
    is_known = is_known && one.has_value();
    any = any || one.value_or(false);
  }
  return any ? 1 : is_known ? 0 : -1;
}

/** Returns the first location that a process has. */
NonfiniteWord first_of_all(GradientReceiver& receiver, NonfiniteWord mine) {
  const std::array<double, 2> halves{static_cast<double>(mine >> 32),
                                     static_cast<double>(mine & 0xffffffff)};
  const std::vector<double> all = receiver.gather(halves);
  NonfiniteWord first = optim::kAllFinite;
  for (std::size_t i = 0; i < all.size(); i += 2)
    first = std::max(
        first, static_cast<NonfiniteWord>(all[i]) << 32 | static_cast<NonfiniteWord>(all[i + 1]));
  return first;
}

}  // namespace

bool agree(const Receivers& receivers, LossScaler& scaler, const FoundInf& found,
           bool has_gradients) {
  if (receivers.empty()) return has_gradients;
  const unsigned mine = (found.raised() ? kRaised : 0u) | (has_gradients ? kHasGradients : 0u);
  const std::array<double, kNumbers> known{static_cast<double>(mine), scaler.loss_scale(),
                                           static_cast<double>(scaler.state().checks),
                                           found_local_overflow(receivers)};
  const std::vector<double> all = receivers[0]->gather(known);
  require_one_scale(all);
  unsigned flags = 0;
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    flags |= static_cast<unsigned>(all[r + kFlags]);
  if ((flags & kRaised) != 0) {
    scaler.overflow_origin = origin_of(all);
    raise(found, first_of_all(*receivers[0], found.location()));
  }
  return (flags & kHasGradients) != 0;
}

}  // namespace mezzo::amp
