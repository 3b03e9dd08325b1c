// Handwritten bad calls: tables of calls with the type of error that each must throw.
// See also: bad_shapes.cpp, bad_options.cpp (the tables).
#pragma once

#include <mezzo.h>

#include <vector>

namespace cases {

using mezzo::boolean, mezzo::f16, mezzo::f64, mezzo::i64, mezzo::full, mezzo::zeros;
using mezzo::Shape;
using mezzo::Tensor;

/** The operands of the bad calls. */
struct BadCallOperands {
  Tensor m = full({3, 4}, 1), v = full({4}, 1), s = full(Shape{}, 1), e = full({0, 4}, 1),
         t = full({2, 3, 4}, 1);
  Tensor image = full({1, 2, 6, 6}, 1), kernel = full({2, 2, 3, 3}, 1);
  Tensor i = zeros({4}, {.dtype = i64}), im = zeros({3, 4}, {.dtype = i64}),
         far = full({4}, 9, {.dtype = i64});
  Tensor negative = full({4}, -9, {.dtype = i64}), mask = full({3, 4}, 1, {.dtype = boolean});
  Tensor half = full({3, 4}, 1, {.dtype = f16}), wide = full({3, 4}, 1, {.dtype = f64});
  Tensor spread = full({1, 4}, 1).expand({3, 4});  // several elements share memory
  Tensor none;                                     // undefined

  std::vector<Tensor> all() const {
    return {m, v, s, e, t, image, kernel, i, im, far, negative, mask, half, wide, spread};
  }
};

struct BadCallRow {
  const char* text;
  const char* type;  // "Error": any mezzo::Error
  void (*call)(const BadCallOperands& o);
};

// clang-format off
#define BAD(type, ...)                                                                           \
  BadCallRow {                                                                                   \
    #__VA_ARGS__, #type, [](const BadCallOperands& o) {                                          \
      [[maybe_unused]] const auto& [m, v, s, e, t, image, kernel, i, im, far, negative, mask,    \
                                    half, wide, spread, none] = o;                               \
      (void)(__VA_ARGS__);                                                                       \
    }                                                                                            \
  }
// clang-format on

/** Checks that each call throws the stated type with a text of the form "op: ...", and leaves the
 *  operands unchanged. */
void check_refused(const std::vector<BadCallRow>& rows);

}  // namespace cases
