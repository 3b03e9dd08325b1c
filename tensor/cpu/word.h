// visit_word: the unsigned integer type as wide as a dtype; moving elements needs no more than that.
// Sees: dtype.h.
// Read next: gather.cpp, block_rows.cpp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "../dtype.h"

namespace mezzo::cpu_kernels {

/** Calls f(std::type_identity<Word>{}) with that type. */
template <class F> void visit_word(DType dtype, F&& f) {
  switch (item_size(dtype)) {
    case 1: return f(std::type_identity<std::uint8_t>{});
    case 2: return f(std::type_identity<std::uint16_t>{});
    case 4: return f(std::type_identity<std::uint32_t>{});
    default: return f(std::type_identity<std::uint64_t>{});
  }
}

}  // namespace mezzo::cpu_kernels
