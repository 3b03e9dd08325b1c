// The C++ side of the golden cases: the call of each name that make.py has written results for.
// Sees: mezzo.h.
// Read next: golden.cpp (the comparison), make.py (where the files come from).
//
// To add one, write it twice: case('op/variant', call, operands...) in cases_FAMILY.py and GOLDEN("op/variant", call) in FAMILY.cpp, then
// run make.py. What is before the slash is the row's name; every differentiable op has a case.
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

namespace golden {

using mezzo::Reduction;
using mezzo::Tensor;
using Tensors = std::vector<Tensor>;

/** The public function on the operands. Losses take their reduction from the last word of the case's name. */
using Call = Tensors (*)(const Tensors& x, Reduction reduction);

struct Case {
  std::string name;
  Call call;
  double factor;  // multiplies the tolerances
};

std::vector<Case>& all_cases();

inline Tensors results(const Tensor& y) { return {y}; }
inline Tensors results(const mezzo::ValuesAndIndices& y) { return {y.values, y.indices}; }
inline Tensors results(const Tensors& y) { return y; }

/** Runs the additions of a file before the tests. */
struct Registrar {
  explicit Registrar(void (*add)()) { add(); }
};

#define GOLDEN_WITHIN(name, factor, ...)                                     \
  golden::all_cases().push_back({name,                                       \
                                 [](const Tensors& x, Reduction reduction) { \
                                   (void)x, (void)reduction;                 \
                                   return golden::results(__VA_ARGS__);      \
                                 },                                          \
                                 factor})
#define GOLDEN(name, ...) GOLDEN_WITHIN(name, 1, __VA_ARGS__)

/** A case for each reduction. */
#define GOLDEN_REDUCTIONS(name, ...) \
  GOLDEN(name "/none", __VA_ARGS__); \
  GOLDEN(name "/sum", __VA_ARGS__);  \
  GOLDEN(name "/mean", __VA_ARGS__)

/** An in-place function on a copy of the first operand. */
#define GOLDEN_IN_PLACE(name, ...) \
  GOLDEN(name, [&] {               \
    const Tensor self = x[0] * 1;  \
    __VA_ARGS__;                   \
    return self;                   \
  }())

}  // namespace golden
