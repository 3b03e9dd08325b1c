// Graph and CapturedStep: a whole training step that a GPU runs by itself, put into its queue in one call.
// Sees: ../tensor. No CUDA header.
// Read next: graph.cpp, ../tensor/capture.h (what a step's parts have to do), recording.h (how a device records).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "../tensor/tensor.h"

namespace mezzo::gpu {

/** Work of a device that was captured once and can be run again and again, always in the same memory.
 *  Everything that a step does on the device is in it: forward and backward pass, unscaling, clipping, the update, the scale's move. What it does
 *  on the host (printing, reading values, choosing between branches) happens once, at the capture. Learning rates, counts of steps, loss scales
 *  and random numbers go on from replay to replay as if the step had run; a step that is captured gives the same bits as one that is run.
 *  Keep what the step uses as long as the graph, and use both on one thread. A backward pass adds to the gradients that it met, or sets new ones. */
class MZ_API Graph {
 public:
  /** An empty one. */
  Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /** Calls `step` once and keeps its work instead of running it. All that it does for the first time (optimizer states, say) has to have happened
   *  before: run it once. Tensors made within belong to the graph: each replay overwrites them.
   *  Errors: Unsupported for a device that records no work, as the CPU; StateError inside another capture, and naming the op where the step
   *  reads values on the host or brings some from there; CapturePostponed where something has to happen first; OutOfMemory; whatever `step`
   *  throws. Then nothing has run, and stream and memory are as before; gradients that the step has set are undefined: drop them. */
  void capture(Device device, const std::function<void()>& step);
  bool is_captured() const;
  /** Puts the work into the device's queue; the host goes on. Errors: StateError where nothing was captured, or a part of the step is gone;
   *  CudaError. */
  void replay();

 private:
  friend class CapturedStep;
  struct State;
  std::unique_ptr<State> state_;
};

struct CapturedStepOptions {
  Device device = Device::best();  // where the inputs are wanted
  bool non_blocking = false;  // read pinned inputs while the host goes on, which leaves them alone till then
};

/** A training step as a function of its inputs that is captured when it is called for the second time with inputs of their shapes and dtypes:
 *    gpu::CapturedStep step([&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
 *      optimizer.zero_grad();
 *      const Tensor loss = cross_entropy(model(in[0]), in[1]);
 *      scaler.scale(loss).backward();
 *      scaler.step_deferred(optimizer);
 *      scaler.update();
 *      return {loss};
 *    });
 *    for (const auto& [x, y] : batches) Tensor loss = step({x, y})[0];
 *  Inputs are copied into the memory that the captured step reads. Results are overwritten by the next call with inputs of these shapes; they are
 *  outside the graph of derivatives. On the CPU, which captures nothing, every call runs the function. */
class MZ_API CapturedStep {
 public:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  explicit CapturedStep(Function function, const CapturedStepOptions& options = {});
  CapturedStep(CapturedStep&& other) noexcept;
  CapturedStep& operator=(CapturedStep&& other) noexcept;
  ~CapturedStep();

  /** One step. Errors: as Graph::capture and Graph::replay, and the function's own. A call that throws leaves the others' captures as they are; the
   *  next with these shapes runs the function and captures it afterwards. */
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);
  /** How many steps of different shapes are captured now. */
  std::size_t captures() const;
  /** Forgets them: for a step that does something else from now on. */
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::gpu
