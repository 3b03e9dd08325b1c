// Switches between speed and accuracy that hold for the whole process.
// Sees: macros.h.
// Read next: ../cuda/blas.cpp, ../cuda/attention_library.cpp (who ask).
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

/** Whether cuDNN serves scaled_dot_product_attention on a GPU (compute capability 8.0 on) where it can: f16 and bf16, without a mask and dropout, with
 *  or without is_causal, at least 2 queries and 2 keys, rows of q and v whose sizes are multiples of 8 and at most 128 and which begin at multiples of
 *  16 bytes; and the gradients, where q, k and v are not broadcast and one number of 16 bits for each score takes no more than 256 MiB. It rounds
 *  probabilities, and in the gradients those of the scores, to the dtype, as PyTorch's fused kernels do; Mezzo's own kernels, which do the rest, round
 *  results alone. For each new kind of call its answers are held against theirs once, which waits for the device; where they differ, it is logged
 *  and that kind stays with ours. Captured steps use what was proved before. On at first, as in PyTorch. */
MZ_API bool cudnn_sdp_enabled();
MZ_API void enable_cudnn_sdp(bool on);

}  // namespace mezzo
