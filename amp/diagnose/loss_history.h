// LossHistory: the latest values of a loss, to tell since when it is not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../../tensor/core/tensor.h"

namespace mezzo::amp {

/** The latest losses of one loss scaler. Values on the CPU are read at once, values on a device
 *  when they are asked for. Until then one tensor is kept for each step. */
class MZ_API LossHistory {
 public:
  /** Greatest number of steps that are kept on a device: those until kPollSteps = 50 skipped steps
   *  have been noticed, with room for larger limits. */
  static constexpr std::size_t kKept = 160;

  /** A run of losses that are not finite, up to the latest. */
  struct Run {
    std::int64_t since = 0;   // the step of the first
    std::int64_t last = 0;    // the step of the latest
    double value = 0;         // of the first: NaN or an infinity
    bool from_start = false;  // no earlier loss was finite
  };

  /** Records the loss of a step; a later one of the same step replaces it, but on the CPU one that
   *  is not finite stays. Ignores losses of more than one element, and those of captured steps. */
  void note(const Tensor& loss, std::int64_t step);
  /** Returns true if the latest loss was read and is not finite. */
  bool is_nonfinite() const { return run_.has_value(); }
  /** Returns the losses that are not finite, if the latest is one. Waits for the device. */
  std::optional<Run> nonfinite_run() const;
  /** Returns text such as "loss nan since step 3", or nothing if the latest loss is finite. Waits
   *  for the device. Never throws, since it is used to build error messages. */
  std::string text() const noexcept;

 private:
  struct Entry {
    std::int64_t step;
    Tensor loss;
  };

  bool any_finite_ = false;    // of the losses that were read, or are not kept
  std::optional<Run> run_;     // of those that were read
  std::vector<Entry> unread_;  // later ones, oldest first
};

}  // namespace mezzo::amp
