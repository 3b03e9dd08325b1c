#include "gradient_check.h"

#include <algorithm>
#include <array>

#include "../../tensor/core/error.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::NonfiniteWord;

const FoundInf& move_to(Device device, FoundInf& found) {
  if (found.word.defined() && found.word.device() == device) return found;
  const FoundInf moved = FoundInf::reset_on(device);
  if (found.word.defined()) moved.word.copy_(found.word);
  return found = moved;
}

void unscale(std::vector<GradientSum> sums, const FoundInf& found) {
  while (!sums.empty()) {
    const GradientSum head = sums.front();
    const Device device = head.tensors.x.device();
    const auto rest = std::stable_partition(sums.begin(), sums.end(), [&](const GradientSum& item) {
      return item.tensors.x.device() == device && item.a == head.a && item.b == head.b &&
             item.fresh == head.fresh;
    });
    std::vector<optim::AxpbyTensors> items;
    for (auto item = sums.begin(); item != rest; ++item) items.push_back(item->tensors);
    const bool checked = head.fresh && found.word.defined();
    const bool elsewhere = checked && device != found.word.device();
    const FoundInf here = elsewhere ? FoundInf::reset_on(device) : checked ? found : FoundInf{};
    if (head.tensors.out.defined())
      optim::axpby(items, head.a, head.b, here);
    else
      optim::check_finite(items, here);
    if (elsewhere && here.raised()) {
      const NonfiniteWord first = std::max(here.location(), found.location());
      upload(found.word, &first, sizeof first);
    }
    sums.erase(sums.begin(), rest);
  }
}

// ---- several processes --------------------------------------------------------------------------

namespace {

// What one process tells the others, as numbers.
constexpr std::size_t kHasGradients = 0;
constexpr std::size_t kScale = 1;           // the loss scale
constexpr std::size_t kChecks = 2;          // the scaler's number of checks
constexpr std::size_t kLocal = 3;           // 1: its own gradients overflowed; 0: not; -1: unknown
constexpr std::size_t kHigh = 4, kLow = 5;  // the halves of the overflow flag
constexpr std::size_t kNumbers = 6;         // in all

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

}  // namespace

bool agree(const Receivers& receivers, LossScaler& scaler, const FoundInf& found,
           bool has_gradients) {
  if (receivers.empty()) return has_gradients;
  NonfiniteWord first = found.location();
  const std::array<double, kNumbers> mine{has_gradients ? 1.0 : 0.0,
                                          scaler.loss_scale(),
                                          static_cast<double>(scaler.state().checks),
                                          found_local_overflow(receivers),
                                          static_cast<double>(first >> 32),
                                          static_cast<double>(first & 0xffffffff)};
  const std::vector<double> all = receivers[0]->gather(mine);
  require_one_scale(all);
  for (std::size_t r = 0; r < all.size(); r += kNumbers) {
    has_gradients = has_gradients || all[r + kHasGradients] != 0;
    first = std::max(first, static_cast<NonfiniteWord>(all[r + kHigh]) << 32 |
                                static_cast<NonfiniteWord>(all[r + kLow]));
  }
  if (first != optim::kAllFinite) {
    scaler.overflow_origin = origin_of(all);
    upload(found.word, &first, sizeof first);
  }
  return has_gradients;
}

}  // namespace mezzo::amp
