// A recurrent layer as cuDNN takes it: what it is, what memory it needs, and two calls, so narrow that the emulated build puts its own behind them.
// Sees: ../tensor/ops/recurrent.h, runtime.h.
// Read next: dnn_recurrent.cpp (on cuDNN), ../tests/emulator/dnn_recurrent.cpp (on the host), kernels/recurrent_library.cu (who calls it).
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "../tensor/ops/recurrent.h"
#include "runtime.h"

namespace mezzo::gpu::dnn {

/** One layer in one direction, forwards in time, with two vectors of biases. Its arrays are row-major, on the device and of one dtype. */
struct Recurrent {
  op::CellKind kind = op::CellKind::rnn_tanh;
  DType dtype = DType::f32;
  std::int64_t steps = 0, batch = 0, features = 0, hidden = 0;
  std::int64_t size = 0;                   // of h: as `hidden`, unless it is projected
  bool training = false;                   // the gradient will be asked for
  bool persistent = false;                 // one launch for all steps, with the weights of h kept on chip
  std::vector<std::int32_t> lengths = {};  // of the sequences; empty: all are as long as there are steps
};

/** Memory that a layer wants, in bytes, and the places of its parameters in that for the weights: w_ih, w_hh, b_ih, b_hh, w_hr, as in
 *  op::RecurrentLayerBackward::Parameter; what the layer does not have has none. */
struct RecurrentSpaces {
  std::int64_t weights = 0, work = 0;
  std::int64_t reserve = 0;  // kept from a training call for the gradient, which changes it
  std::array<std::optional<std::int64_t>, 5> places = {};
};

/** x [T, N, features], h0 [N, size], c0 [N, hidden]; y [T, N, size], 0 behind a sequence's end; h and c as h0 and c0, of each sequence's last step. */
struct RecurrentArrays {
  const void *x = nullptr, *h0 = nullptr, *c0 = nullptr;  // a state that is null is 0
  const void* weights = nullptr;
  void *y = nullptr, *h = nullptr, *c = nullptr;
  void *work = nullptr, *reserve = nullptr;
};

/** Gradients: those that are given and those that are wanted, beside the arrays of the forward call. */
struct RecurrentGradients {
  const void *gy = nullptr, *gh = nullptr, *gc = nullptr;  // gh or gc null: 0
  void *x = nullptr, *h0 = nullptr, *c0 = nullptr;         // those of the states may be null
  void* weights = nullptr;                                 // added to; null: not wanted
};

/** None where there is no cuDNN, or it has nothing for such a layer. Errors: CudaError. */
std::optional<RecurrentSpaces> recurrent_spaces(const Recurrent& layer, Device device);

/** Put the layer, or its gradients, into the stream. False where cuDNN turns out to have nothing for it: then nothing was done that counts.
 *  Their bits vary from run to run unless recurrent_is_deterministic(). Errors: CudaError. */
bool run(const Recurrent& layer, const RecurrentSpaces& spaces, const RecurrentArrays& arrays, Device device,
         runtime::Stream stream);
bool differentiate(const Recurrent& layer, const RecurrentSpaces& spaces, const RecurrentArrays& arrays,
                   const RecurrentGradients& gradients, Device device, runtime::Stream stream);

/** cuDNN computes recurrent layers in several streams with one handle of cuBLAS, which then gives the same bits every time only if the environment's
 *  CUBLAS_WORKSPACE_CONFIG asks for work spaces of one size. Source: cuDNN's release notes (known issues of recurrent layers) and cuBLAS's
 *  documentation, "Results reproducibility". */
bool recurrent_is_deterministic();

}  // namespace mezzo::gpu::dnn
