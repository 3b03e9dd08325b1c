// CapturedSteps: the steps of an optimizer in one captured graph.
#pragma once

#include <memory>
#include <vector>

#include "../tensor/device/capture.h"

namespace mezzo::optim {

class DeviceStepState;

/** Uploads before each replay what has changed on the host, and counts the steps of the replay.
 *  Checks that the optimizer's tensors have the addresses that the graph recorded: memory that was
 *  freed since may belong to other tensors. */
class CapturedSteps final : public CaptureParticipant {
 public:
  explicit CapturedSteps(std::shared_ptr<DeviceStepState> state) : state_(std::move(state)) {}

  std::int64_t steps = 0;  // in one replay

  void finish_capture() override;
  void abandon_capture() noexcept override;
  void before_replay() override;
  void after_replay() override;

 private:
  std::shared_ptr<DeviceStepState> state_;
  std::vector<const void*> addresses_;
};

}  // namespace mezzo::optim
