// The case list: for each op row, how to call it, what it should give, and on which inputs. Every generated test reads it.
// Sees: mezzo.h.
// Read next: samples.h (cases as operands), the files cases_*.cpp.
//
// To add cases for an op, append to the list in cases_FAMILY.cpp:
//
//   add_case({.op = "mul", .call = CALL(mul(x[0], x[1])), .oracle = elementwise([](double a, double b) { return a * b; }),
//             .operands = {{}, {}}, .shapes = {{{3, 4}, {4}}, ...}});
//
// A row of the registry without a case fails the suite (rows marked `internal` are reached through the gradients of others).
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <mezzo.h>

namespace cases {

using mezzo::DType;
using mezzo::Shape;
using mezzo::Tensor;

/** A row-major array of doubles: what oracles compute with, independent of the library's kernels. */
struct Array {
  Shape shape;
  std::vector<double> values;
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  std::int64_t numel() const { return static_cast<std::int64_t>(values.size()); }
};

/** What values an operand takes. */
struct Operand {
  double low = -2, high = 2;           // uniform within
  std::vector<double> kinks = {};      // gradient checks keep clear of these
  bool integers = false;               // i64 values in [low, high]: indices, labels; never cast, no gradient
  bool boolean = false;                // a mask
  bool constant = false;               // floating, but takes part without gradient: weights of classes
  bool parameter_like = false;         // stays f32 when the others are f16/bf16 (batch norm's weights)
  bool positive_definite_gap = false;  // values are spread so that no two are closer than 1e-3: no ties
};

using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>& x)>;
using Oracle = std::function<std::vector<Array>(const std::vector<Array>& x)>;

struct Case {
  std::string op;            // the row's name
  std::string variant = {};  // tells several cases of one op apart
  Call call;                 // the public function on the operands; floating results first
  Oracle oracle;             // the same in f64 loops; as many results as are to be compared
  std::vector<Operand> operands = {{}};
  std::vector<std::vector<Shape>> shapes =
      {};                 // samples: one shape per operand; default kUnaryShapes or kBinaryShapes
  double factor = 1;      // multiplies the tolerances of value and gradient comparisons
  bool gradients = true;  // false where the function is not differentiable or random
  bool second_order = true;
  bool half = true;  // run in f16 and bf16 too
  bool single_op =
      true;  // false where the call wraps the op in others, which autocast would treat by their own tags
  bool exact_shapes_only = false;  // operands are not laid out with strides (views, in-place cases)
};

std::vector<Case>& all_cases();
inline void add_case(Case c) { all_cases().push_back(std::move(c)); }

/** Runs the additions of a file before the tests: `static const Registrar additions([] { add_case(...); ... });` */
struct Registrar {
  explicit Registrar(void (*add)()) { add(); }
};

/** A call on operands x that gives one tensor. */
#define CALL(expression)                    \
  [](const std::vector<Tensor>& x) {        \
    (void)x;                                \
    return std::vector<Tensor>{expression}; \
  }

// ---- oracles ------------------------------------------------------------------------------------------------------

/** Element of `x` that meets position `index` of the broadcast shape `out`. */
double broadcast_at(const Array& x, const Shape& out, std::int64_t index);

Oracle elementwise(double (*f)(double));
Oracle elementwise(double (*f)(double, double));
Oracle elementwise(double (*f)(double, double, double));

/** For ops that only move elements: the library's own f64 result, by a rule of index arithmetic given here. `source(i)` is the row-major position in
 *  operand 0 of result element i, or -1 for zero. */
Array moved(const Array& x, const Shape& shape, const std::function<std::int64_t(std::int64_t)>& source);

// ---- usual shapes ----------------------------------------------------------------------------------------------------

const std::vector<std::vector<Shape>>&
unary_shapes();  // 0-dim, empty, 1-D, 2-D, 3-D, sizes that do not divide a vector
const std::vector<std::vector<Shape>>& binary_shapes();  // equal, broadcast both ways, 0-dim, empty

}  // namespace cases
