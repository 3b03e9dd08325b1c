// The CUDA kernels of the optimizer updates, and of the end of checks that no update does, with the
// code that the CPU uses.
#include "updates.h"

#include <algorithm>

#include "../attach.h"

namespace mezzo::gpu {

namespace {

/** Flags that one launch raises; null: none. */
struct RaisedFlags {
  static constexpr std::size_t kMost = 8;
  optim::NonfiniteWord* flags[kMost] = {};
};

__global__ void __launch_bounds__(1) step_end_kernel(const optim::StepEnd __grid_constant__ end,
                                                     const RaisedFlags __grid_constant__ raised) {
  for (optim::NonfiniteWord* const flag : raised.flags)
    if (flag) end.raise(flag);
  end.run();
}

}  // namespace

void attach_updates() {
#define MZ_ATTACH(Update) attach_update<optim::Update>();
  MZ_FOR_EACH_UPDATE(MZ_ATTACH)
#undef MZ_ATTACH
  optim::end_kernel(DeviceKind::cuda) =
      [](const optim::StepEnd& end, std::span<optim::NonfiniteWord* const> raised, Device device) {
        do {  // the last launch does the end
          RaisedFlags some;
          const std::size_t count = std::min(raised.size(), RaisedFlags::kMost);
          std::copy_n(raised.begin(), count, some.flags);
          raised = raised.subspan(count);
          launch(&step_end_kernel, {.threads = 1}, current_stream(device),
                 raised.empty() ? end : optim::StepEnd{.found_inf = end.found_inf}, some);
        } while (!raised.empty());
      };
}

}  // namespace mezzo::gpu
