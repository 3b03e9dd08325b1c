// The calls of cuDNN for convolutions and attention: its plans for a problem, and running one; so
// narrow that the emulated build puts its own behind them.
// Sees: dnn.h.
// Read next: dnn_calls.cpp (on cuDNN), ../tests/emulator/dnn.cpp (on the host), dnn.cpp (who
// chooses).
#pragma once

#include <memory>
#include <optional>

#include "dnn.h"

namespace mezzo::gpu::dnn {

/** An engine of the library, ready to run; the library's own. */
struct Plan;

/** A plan, and the place of its engine among those that the library names for the problem. */
struct Choice {
  std::shared_ptr<const Plan> plan;
  int index = 0;
};

/** Whether the library is there and can be asked for such a problem. */
bool takes(const Convolution& convolution);
bool takes(const Attention& attention);

/** The first plan from a place on; none where the library has nothing more. Errors: CudaError
 *  where the library fails. */
std::optional<Choice> find_plan(const Convolution& convolution, Device device, int first);
std::optional<Choice> find_plan(const Attention& attention, Device device, int first);

/** Puts the problem into the stream. Errors: CudaError where the library fails. */
void execute(const Plan& plan, const Convolution& convolution, Device device, runtime::Stream stream);
void execute(const Plan& plan, const Attention& attention, Device device, runtime::Stream stream);

}  // namespace mezzo::gpu::dnn
