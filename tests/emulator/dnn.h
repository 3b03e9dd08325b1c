// Presence and faults of the emulated cuDNN. Without it Mezzo's own kernels are used.
#pragma once

#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

MZ_API bool has_dnn();
MZ_API void set_has_dnn(bool has);

/** Faults of the library's convolutions. */
enum class ConvolutionFault : std::uint8_t {
  none,
  wrong_factor,  // results are 1.03 times too large
  garbage_f64,   // f64 is supported, with a float factor read as a double
  last_entry,    // the last entry of the batch is not computed; weight gradients lack it
};
MZ_API void set_convolution_fault(ConvolutionFault fault);

/** Faults of cuBLASLt's products with a bias or a fused function. */
enum class EpilogueFault : std::uint8_t {
  none,
  wrong_bias,  // the bias of the first column is added to all
  wrong_gelu,  // the gradient of gelu is that at 0
  short_sums,  // sums of rows lack the last term
};
MZ_API EpilogueFault epilogue_fault();
MZ_API void set_epilogue_fault(EpilogueFault fault);

/** Faults of the library's recurrent layers. */
enum class DnnFault : std::uint8_t { none, wrong_results, wrong_gradients, hidden_nan };
MZ_API DnnFault dnn_fault();
MZ_API void set_dnn_fault(DnnFault fault);

/** Faults of the library's attention. */
enum class AttentionFault : std::uint8_t {
  none,
  sees_one_more,  // causal: query i also attends to key i + 1
  wrong_offsets,  // gradients: the row sums of g y have a wrong factor
  no_broadcast,   // a bias applies to the first of the entries, heads or queries that share it
  loses_nan,
  varies,  // results vary from run to run
  fails,   // calls fail with an error
};
MZ_API void set_attention_fault(AttentionFault fault);
/** Sets the value of gpu::dnn::most_score_bytes(). */
MZ_API void set_most_score_bytes(std::int64_t bytes);

}  // namespace mezzo::emulator
