// visit_word: selects the unsigned integer type of a dtype's size, for code that only moves
// elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../core/dtype.h"

namespace mezzo::cpu_kernels {

/** Calls f(std::type_identity<Word>{}), where Word has the size of the dtype. */
template <class F> void visit_word(DType dtype, F&& f) {
  switch (item_size(dtype)) {
    case 1: return f(std::type_identity<std::uint8_t>{});
    case 2: return f(std::type_identity<std::uint16_t>{});
    case 4: return f(std::type_identity<std::uint32_t>{});
    default: return f(std::type_identity<std::uint64_t>{});
  }
}

}  // namespace mezzo::cpu_kernels
