// Whether the emulated machine has cuDNN, and a sound one: without it the kernels of our own do everything.
// Sees: ../../tensor/macros.h.
// Read next: dnn.cpp, dnn_attention.cpp.
#pragma once

#include <cstdint>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

MZ_API bool has_dnn();
MZ_API void set_has_dnn(bool has);

/** What is wrong with what it computes of recurrent layers. */
enum class DnnFault : std::uint8_t { none, wrong_results, wrong_gradients, hidden_nan };
MZ_API DnnFault dnn_fault();
MZ_API void set_dnn_fault(DnnFault fault);

/** What is wrong with the library's attention. */
enum class AttentionFault : std::uint8_t {
  none,
  sees_one_more,  // causal: query i sees key i + 1
  loses_nan,
  varies,  // from run to run
  fails,   // with an error
};
MZ_API void set_attention_fault(AttentionFault fault);
/** See gpu::dnn::most_score_gradients. */
MZ_API void set_most_score_gradients(std::int64_t bytes);

}  // namespace mezzo::emulator
