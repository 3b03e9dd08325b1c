// The calls of cuDNN for convolutions and attention: find a plan for a problem, and run one.
// calls.cpp implements them with cuDNN, tests/emulator/dnn.cpp on the host.
#pragma once

#include <memory>
#include <optional>

#include "dnn.h"

namespace mezzo::gpu::dnn {

/** An engine of the library, ready to run; defined by the implementation. */
struct Plan;

/** A plan and the index of its engine in the library's list for the problem. */
struct Choice {
  std::shared_ptr<const Plan> plan;
  int index = 0;             // -1: found by search, so that a fallback begins with the first
  bool last_resort = false;  // a slow engine, after all others
};

/** Return true if the library is loaded and accepts such problems. */
bool takes(const Convolution& convolution);
bool takes(const Attention& attention);

/** Return the first plan with an index of at least `first`, or nothing if there is none. Errors:
 *  CudaError where the library fails. */
std::optional<Choice> find_plan(const Convolution& convolution, Device device, int first);
std::optional<Choice> find_plan(const Attention& attention, Device device, int first);

/** Enqueue the problem. Errors: CudaError where the library fails. */
void execute(const Plan& plan, const Convolution& convolution, Device device,
             runtime::Stream stream);
void execute(const Plan& plan, const Attention& attention, Device device, runtime::Stream stream);

}  // namespace mezzo::gpu::dnn
