// Process-wide switches between speed and accuracy.
#pragma once

#include "macros.h"

namespace mezzo {

/** Returns whether f32 matrix products and convolutions on a GPU may round their factors to TF32
 *  (10 bits of fraction, the exponent range of f32) to use Tensor Cores. Sums stay in f32. Default:
 *  off. PyTorch's default is off for products and on for convolutions. The CPU never uses TF32. */
MZ_API bool allow_tf32();
/** Sets allow_tf32(). */
MZ_API void set_allow_tf32(bool on);

/** Returns whether an op on a GPU may choose an implementation whose last bits can differ from run
 *  to run: cuDNN engines that sum in the order in which blocks finish, for convolutions and for the
 *  gradients of attention, and cuDNN's recurrent layers. Default: off, so that the same program
 *  gives the same bits in every run. The equivalent in PyTorch is
 *  use_deterministic_algorithms(false), its default. Results on the CPU are always deterministic.
 */
MZ_API bool allow_nondeterministic();
/** Sets allow_nondeterministic(). */
MZ_API void set_allow_nondeterministic(bool on);

/** Returns whether each new kind of matrix product or convolution on a GPU is timed with every
 *  algorithm that cuBLASLt or cuDNN offers and the other switches allow, and the fastest is used
 *  for the rest of the process. If off, the library's heuristic choice is used. Default: off,
 *  because the search takes some milliseconds for each kind, synchronises with the device, and may
 *  find another algorithm, with other last bits, in another run. Captured steps use the algorithms
 *  found before the capture. The equivalent in PyTorch is cudnn.benchmark, for convolutions. */
MZ_API bool search_products();
/** Sets search_products(). */
MZ_API void set_search_products(bool on);

/** Returns whether the first results of each kind of call of a GPU library are compared with those
 *  of Mezzo's own kernels on the same operands: convolutions, attention and recurrent layers by
 *  cuDNN, products with a bias or a fused function by cuBLASLt. A kind is what the library chooses
 *  an algorithm for: sizes, strides, dtypes, alignment. If the results differ by more than
 *  roundings, this is logged once, the call returns Mezzo's results, and Mezzo's kernels serve the
 *  kind from then on. The comparison takes one call of Mezzo's kernels and memory for its results,
 *  and synchronises with the device. Operands with nan or infinity, or results that are all zero,
 *  prove nothing, and a later call is compared. In a captured step, kinds that were not compared
 *  before run on Mezzo's kernels. Default: on. Unlike PyTorch, which uses what the libraries
 *  return. */
MZ_API bool verify_libraries();
/** Sets verify_libraries(). Turn it off to measure the first steps of a program, or the libraries'
 *  own errors. Kinds that have differed stay with Mezzo's kernels. */
MZ_API void set_verify_libraries(bool on);

/** Returns whether the CPU computes products of bf16 operands, and of f16 operands (the matrix
 *  products, convolutions, attention and recurrent layers), in f32 arithmetic. Default: off, unless
 * the environment variable MEZZO_EXACT_PRODUCTS is 1 at the first call. If off, the CPU's
 * instructions are used where cpu_isa() says so:
 *
 *  - bf16 (AVX512-BF16) multiplies pairs of bf16 numbers and sums them in f32.
 *  - amx multiplies tiles of bf16 numbers: steps of 32 terms, each the sum of two chains
 *    (tensor/cpu/gemm_tile.h has the exact order). Products of f16 operands are computed by tiles
 * as well, as exact sums of two bf16 numbers, unless an operand has an infinity or nan. Products
 * too small for tiles are computed in f32.
 *
 *  These instructions add in another order than the f32 arithmetic, so the last bits differ (where
 *  products of both signs overflow, the sign of the infinity). They count operands, products and
 *  sums below 2^-126 in magnitude as zero; other sums have at most twice the error of f32
 *  arithmetic. In attention and recurrent layers of bf16, operands computed inside the op (the
 *  probabilities, the gradients of scores and gates) are rounded to bf16, too, as PyTorch does.
 *  Either way, sums are rounded once, and the bits do not depend on the number of threads. With
 *  exact products they do not depend on the instruction set either. CPUs without these
 *  instructions and GPUs are not affected. Errors: ValueError
 *  at the first call if the variable is neither 0 nor 1. */
MZ_API bool exact_products();
/** Sets exact_products() for the ops that begin after the call, in all threads. An op that another
 *  thread is computing meanwhile may use either kind for each of its products. A captured step
 *  contains no work for the CPU, so it is not affected. */
MZ_API void set_exact_products(bool on);

/** Returns whether cuDNN computes scaled_dot_product_attention on a GPU (compute capability 8.0 or
 *  higher) where it can. It can for f16 and bf16 with at least 2 keys, a dropout_p below 1, and
 *  rows of q and v whose sizes are multiples of 8 and at most 128 and which begin at multiples of
 *  16 bytes. It can compute the gradients of q, k and v if in addition they are not broadcast and
 *  that of a mask is not requested. For each entry of the batch, a mask in f32, a mask of dropout
 *  in 16 bits and the gradients of the scores in 16 bits may take 256 MiB each. cuDNN rounds
 *  probabilities, and in the gradients those of the scores, to the dtype, as PyTorch's fused
 *  kernels do; Mezzo's own kernels, which compute all other cases, round only results. Gradients of
 *  calls with one query, and with a mask and 64 keys modulo 128, are Mezzo's too: cuDNN 9.19
 *  returns nan for some of them. Each new kind of call is first run once on nan, which synchronises
 *  with the device; a kind that loses it uses Mezzo's kernels (see also verify_libraries()).
 *  Captured steps use the kinds verified before the capture. Default: on, as in PyTorch. */
MZ_API bool cudnn_sdp_enabled();
/** Sets cudnn_sdp_enabled(). */
MZ_API void enable_cudnn_sdp(bool on);

}  // namespace mezzo
