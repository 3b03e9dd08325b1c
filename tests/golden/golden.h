// The C++ side of the golden cases: a call for each name that make.py has written results for.
// See also: make.py (writes the reference files).
//
// To add one, write it twice: case('op/variant', call, operands...) in a Python file of the family
// such as cases_loss.py, and GOLDEN("op/variant", call) in its C++ file such as loss.cpp. Then run
// make.py. The part before the slash is the op's name; every differentiable op has a case.
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

namespace golden {

using mezzo::Reduction;
using mezzo::Tensor;
using Tensors = std::vector<Tensor>;

/** Calls the public function on the operands. Losses take their reduction from the last part of
 *  the case's name. */
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

/** Registers a file's cases before the tests run. */
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

/** Adds a case for each reduction. */
#define GOLDEN_REDUCTIONS(name, ...) \
  GOLDEN(name "/none", __VA_ARGS__); \
  GOLDEN(name "/sum", __VA_ARGS__);  \
  GOLDEN(name "/mean", __VA_ARGS__)

/** Adds a case that calls an in-place function on a copy of the first operand. */
#define GOLDEN_IN_PLACE(name, ...) \
  GOLDEN(name, [&] {               \
    const Tensor self = x[0] * 1;  \
    __VA_ARGS__;                   \
    return self;                   \
  }())

}  // namespace golden
