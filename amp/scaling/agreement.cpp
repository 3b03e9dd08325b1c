#include "agreement.h"

#include <algorithm>
#include <array>
#include <limits>

#include "../../tensor/comm/comm_error.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

namespace {

/** What a process knows, as numbers. */
enum Number : std::size_t { kFlags, kScale, kChecks, kLocal, kNumbers };
/** Parts of kFlags. */
enum Flag : unsigned { kRaised = 1, kHasGradients = 2 };

class Numbers {
 public:
  explicit Numbers(std::vector<double> all) : all_(std::move(all)) {}
  std::size_t processes() const { return all_.size() / kNumbers; }
  double of(std::size_t process, Number which) const { return all_[process * kNumbers + which]; }
  bool any(Flag flag) const {
    for (std::size_t r = 0; r < processes(); ++r)
      if ((static_cast<unsigned>(of(r, kFlags)) & flag) != 0) return true;
    return false;
  }

 private:
  std::vector<double> all_;
};

void require_one_scale(const Numbers& numbers) {
  for (std::size_t r = 1; r < numbers.processes(); ++r)
    if (numbers.of(r, kScale) != numbers.of(0, kScale) ||
        numbers.of(r, kChecks) != numbers.of(0, kChecks))
      fail<CommError>(
          "amp", {.what = "the loss scale differs",
                  .got = str(numbers.of(0, kScale), " on rank 0 after ", numbers.of(0, kChecks),
                             " checks, ", numbers.of(r, kScale), " on rank ", r, " after ",
                             numbers.of(r, kChecks), " checks")});
}

/** Returns where the first process was that had the overflow in its own gradients. */
std::string origin_of(const Numbers& numbers) {
  for (std::size_t r = 0; r < numbers.processes(); ++r)
    if (numbers.of(r, kLocal) < 0) return {};
  for (std::size_t r = 0; r < numbers.processes(); ++r)
    if (numbers.of(r, kLocal) > 0) return str(", first on rank ", r);
  return ", on no rank alone: in the sum";
}

/** Returns whether a receiver's own gradients had an overflow; nothing if that is not known. */
std::optional<bool> found_local_overflow(const Receivers& receivers) {
  bool is_known = true, any = false;
  for (GradientReceiver* const receiver : receivers) {
    const std::optional<bool> one = receiver->found_local_overflow();
    is_known = is_known && one.has_value();
    any = any || one.value_or(false);
  }
  return any || is_known ? std::optional(any) : std::nullopt;
}

/** Raises the flag, with the first location of all processes. */
void raise(GradientReceiver& receiver, const optim::FoundInf& found) {
  const auto word = static_cast<std::uint64_t>(found.first.item<std::int64_t>());
  const std::array<double, 2> halves{static_cast<double>(word >> 32),
                                     static_cast<double>(word & 0xffffffff)};
  const std::vector<double> all = receiver.gather(halves);
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < all.size(); i += 2)
    first = std::min(
        first, static_cast<std::uint64_t>(all[i]) << 32 | static_cast<std::uint64_t>(all[i + 1]));
  const Tensor location = empty_tensor({}, DType::i64, cpu);
  *location.data<std::int64_t>() = static_cast<std::int64_t>(first);
  found.flag.fill_(1);
  found.first.copy_(location.to(found.first.device()).view(found.first.shape()));
}

}  // namespace

void add_receivers(const optim::Optimizer& optimizer, Receivers& receivers) {
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group))
      if (GradientReceiver* const receiver = gradient_receiver(slot.param);
          receiver && std::find(receivers.begin(), receivers.end(), receiver) == receivers.end())
        receivers.push_back(receiver);
}

bool agree(const Receivers& receivers, LossScaler& scaler, const optim::FoundInf& found,
           bool has_gradients) {
  if (receivers.empty()) return has_gradients;
  GradientReceiver& first = *receivers[0];
  const std::optional<bool> local = found_local_overflow(receivers);
  const unsigned flags = (found.raised() ? kRaised : 0u) | (has_gradients ? kHasGradients : 0u);
  const std::array<double, kNumbers> mine{static_cast<double>(flags), scaler.loss_scale(),
                                          static_cast<double>(scaler.checks()),
                                          local ? static_cast<double>(*local) : -1.0};
  const Numbers numbers(first.gather(mine));
  require_one_scale(numbers);
  if (numbers.any(kRaised)) {
    scaler.set_overflow_origin(origin_of(numbers));
    raise(first, found);
  }
  return numbers.any(kHasGradients);
}

}  // namespace mezzo::amp
