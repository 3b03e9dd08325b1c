// Graph and CapturedStep: a training step captured on a GPU and replayed with one call. Includes no
// CUDA header. See also: tensor/device/capture.h (what the parts of a step implement).
#pragma once

#include <functional>
#include <vector>

#include "../../tensor/core/pointers.h"
#include "../../tensor/core/tensor.h"

namespace mezzo::gpu {

/** Device work that is captured once and can be replayed any number of times in the same memory.
 *
 *  It contains everything that a step does on the device: forward and backward pass, unscaling,
 *  clipping, the update and the change of the loss scale. Host code (printing, reading values,
 *  branches) runs once, during the capture. Learning rates, step counts, loss scales and random
 *  numbers advance with each replay as if the step had run; a captured step gives the same bits as
 *  an ordinary one. Keep every tensor and object that the step uses alive as long as the graph, and
 *  use both on one thread. A backward pass adds to the gradients that exist at the capture, or sets
 *  new ones. */
class MZ_API Graph {
 public:
  /** Creates an empty graph. */
  Graph();
  /** Takes over the captured work; `other` is empty then. */
  Graph(Graph&& other) noexcept;
  /** As above; frees this graph's captured work. */
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /** Calls `step` once and records its work instead of running it. Run the step once before the
   *  capture, because everything it does for the first time (such as creating optimizer states)
   *  must have happened already. Tensors made within belong to the graph: each replay overwrites
   *  them. Errors: Unsupported for a device that cannot record work, such as the CPU; StateError
   *  inside another capture, and, naming the op, where the step reads device values on the host or
   *  uploads host values; CapturePostponed where something must run first; OutOfMemory; whatever
   *  `step` throws. After an error nothing has run, and stream and memory are unchanged; gradients
   *  that the step has set are undefined: drop them. */
  void capture(Device device, const std::function<void()>& step);
  /** Returns true after a successful capture(). */
  bool is_captured() const;
  /** Enqueues the captured work in the device's current stream; the host does not wait. Errors:
   *  StateError where nothing was captured, or a part of the step no longer exists; CudaError. */
  void replay();

 private:
  friend class CapturedStep;
  struct State;
  Owner<State> state_;
};

/** Options of CapturedStep. */
struct CapturedStepOptions {
  Device device = Device::best();  // device that the step runs on; inputs are copied to it
  /** Copy pinned inputs asynchronously; the host must not change them until the copies are done. */
  bool non_blocking = false;
};

/** A training step as a function of its inputs. It is captured at the second call with inputs of
 *  the same shapes and dtypes:
 *    gpu::CapturedStep step([&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
 *      optimizer.zero_grad();
 *      const Tensor loss = cross_entropy(model(in[0]), in[1]);
 *      scaler.scale(loss).backward();
 *      scaler.step(optimizer);
 *      scaler.update();
 *      return {loss};
 *    });
 *    for (const auto& [x, y] : batches) Tensor loss = step({x, y})[0];
 *  Inputs are copied into the memory that the captured step reads. Results are detached, and the
 *  next call with inputs of these shapes overwrites them. On the CPU, which does not support
 *  capture, every call runs the function. So does a call under a trace hook, which would see
 * nothing of a replay: under a Profiler, detect_nonfinite, or in a step that amp::Report samples.
 */
class MZ_API CapturedStep {
 public:
  /** A step: takes the inputs on the step's device, returns the results. */
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

  /** Stores the function and does not call it. Errors: ValueError if the function is empty. */
  explicit CapturedStep(Function function, const CapturedStepOptions& options = {});
  /** Takes over function and captures; calling `other` then throws StateError. */
  CapturedStep(CapturedStep&& other) noexcept;
  /** As above; drops this step's captures. */
  CapturedStep& operator=(CapturedStep&& other) noexcept;
  ~CapturedStep();

  /** Runs one step. Errors: those of Graph::capture and Graph::replay, and those of the function. A
   *  call that throws does not affect the captures for other shapes; the next call with these
   *  shapes runs the function, and the one after it captures. */
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);
  /** Returns the number of captured steps, one for each combination of input shapes and dtypes. */
  std::size_t captures() const;
  /** Drops all captured steps, for a function whose work has changed. */
  void reset();

 private:
  struct State;
  Owner<State> state_;
};

}  // namespace mezzo::gpu
