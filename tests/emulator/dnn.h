// Presence and faults of the emulated cuDNN. Without it Mezzo's own kernels are used.
#pragma once

#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

MZ_API bool has_dnn();
MZ_API void set_has_dnn(bool has);

/** Faults of the library's recurrent layers. */
enum class DnnFault : std::uint8_t { none, wrong_results, wrong_gradients, hidden_nan };
MZ_API DnnFault dnn_fault();
MZ_API void set_dnn_fault(DnnFault fault);

/** Faults of the library's attention. */
enum class AttentionFault : std::uint8_t {
  none,
  sees_one_more,  // causal: query i also attends to key i + 1
  loses_nan,
  varies,  // results vary from run to run
  fails,   // calls fail with an error
};
MZ_API void set_attention_fault(AttentionFault fault);
/** Sets the value of gpu::dnn::most_score_bytes(). */
MZ_API void set_most_score_bytes(std::int64_t bytes);

}  // namespace mezzo::emulator
