// Recurrent layers by cuDNN: description, workspace sizes and two calls. recurrent.cpp implements
// them with cuDNN, tests/emulator/dnn_recurrent.cpp on the host.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "../../tensor/ops/recurrent/recurrent.h"
#include "../runtime/runtime.h"

namespace mezzo::gpu::dnn {

/** One layer in the forward direction of time, with two bias vectors. Its arrays are row-major, on
 *  the device and of one dtype. */
struct Recurrent {
  op::CellKind kind = op::CellKind::rnn_tanh;
  DType dtype = DType::f32;
  std::int64_t steps = 0, batch = 0, features = 0, hidden = 0;
  std::int64_t size = 0;    // features of h: `hidden`, unless h is projected
  bool training = false;    // a gradient will follow
  bool persistent = false;  // one launch for all steps, with the weights of h in on-chip memory
  std::vector<std::int32_t> lengths = {};  // of the sequences; empty: all have `steps` steps
};

/** Memory that a layer needs, in bytes, and the offsets of its parameters in the weight memory:
 *  w_ih, w_hh, b_ih, b_hh, w_hr, as in op::RecurrentLayerBackward::Parameter. Absent parameters
 *  have no offset. */
struct RecurrentSpaces {
  std::int64_t weights = 0, work = 0;
  std::int64_t reserve = 0;  // saved by a training call for the gradient, which modifies it
  std::array<std::optional<std::int64_t>, 5> places = {};
};

/** x [T, N, features], h0 [N, size], c0 [N, hidden]; y [T, N, size], 0 after a sequence's end; h
 *  and c, shaped as h0 and c0, hold the state after each sequence's last step. */
struct RecurrentArrays {
  const void *x = nullptr, *h0 = nullptr, *c0 = nullptr;  // null states are 0
  const void* weights = nullptr;
  void *y = nullptr, *h = nullptr, *c = nullptr;
  void *work = nullptr, *reserve = nullptr;
};

/** The incoming and the requested gradients, in addition to the arrays of the forward call. */
struct RecurrentGradients {
  const void *gy = nullptr, *gh = nullptr, *gc = nullptr;  // null gh or gc is 0
  void *x = nullptr, *h0 = nullptr, *c0 = nullptr;         // state gradients may be null
  void* weights = nullptr;                                 // accumulated; null: not requested
};

/** Returns the layer's memory sizes, or nothing if cuDNN is missing or does not support the layer.
 *  Errors: CudaError. */
std::optional<RecurrentSpaces> recurrent_spaces(const Recurrent& layer, Device device);

/** Enqueue the layer, or its gradients. They return false if cuDNN rejects it; the results are then
 *  still to be computed. Bits vary from run to run unless recurrent_is_deterministic(). Errors:
 *  CudaError. */
bool run(const Recurrent& layer, const RecurrentSpaces& spaces, const RecurrentArrays& arrays,
         Device device, runtime::Stream stream);
bool differentiate(const Recurrent& layer, const RecurrentSpaces& spaces,
                   const RecurrentArrays& arrays, const RecurrentGradients& gradients,
                   Device device, runtime::Stream stream);

/** Returns true if cuDNN's recurrent layers are deterministic. cuDNN runs them in several streams
 *  with one cuBLAS handle, which gives the same bits every time only if CUBLAS_WORKSPACE_CONFIG in
 *  the environment requests workspaces of one size. Source: cuDNN's release notes (known issues of
 *  recurrent layers) and cuBLAS's documentation, "Results reproducibility". */
bool recurrent_is_deterministic();

}  // namespace mezzo::gpu::dnn
