// Switches between speed and accuracy that hold for the whole process.
// Sees: macros.h.
// Read next: ../cuda/blas.cpp (who asks).
#pragma once

#include "macros.h"

namespace mezzo {

/** Whether products and convolutions in f32 on a GPU may round their factors to TF32 (10 bits of fraction, the exponents of f32), as Tensor Cores
 *  do; sums stay in f32. Off at first; PyTorch has it off for products and on for convolutions. The CPU never does. */
MZ_API bool allow_tf32();
MZ_API void set_allow_tf32(bool on);

/** Whether an op on a GPU may choose an implementation whose last bits can differ from run to run: engines of cuDNN's that sum in whatever order blocks
 *  finish, and its recurrent layers. Off at first, so that the same program gives the same bits again; PyTorch's like:
 *  use_deterministic_algorithms(false), its default. The CPU's bits never vary. */
MZ_API bool allow_nondeterministic();
MZ_API void set_allow_nondeterministic(bool on);

/** Whether a matrix product of a kind not seen before is timed on a GPU with each algorithm that cuBLASLt offers, and the fastest kept for the rest of the
 *  process; else cuBLASLt's own guess is taken. Off at first: searching takes some milliseconds for each kind, waits for the device, and may find
 *  another algorithm, and so other last bits, in another run. Captured steps use what was found before. PyTorch's like: cudnn.benchmark, for
 *  convolutions. */
MZ_API bool search_products();
MZ_API void set_search_products(bool on);

}  // namespace mezzo
