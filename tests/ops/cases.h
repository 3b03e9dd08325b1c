// The case list: for each op, how to call it, its oracle and its inputs. Every generated test
// iterates over it.
// See also: row.h (where cases come from), samples.h (cases as operands).
//
// A registered op without a case fails the suite (ops marked `internal` are tested through the
// gradients of others).
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

/** A row-major array of doubles, which oracles compute with, independent of the library's
 *  kernels. */
struct Array {
  Shape shape;
  std::vector<double> values;
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  std::int64_t numel() const { return static_cast<std::int64_t>(values.size()); }
};

/** The values that an operand takes. */
struct Operand {
  double low = -2, high = 2;       // uniform in [low, high)
  std::vector<double> kinks = {};  // gradient checks avoid these values
  bool integers = false;  // i64 values in [low, high]: indices, labels; never cast, no gradient
  bool boolean = false;   // a mask
  bool constant = false;  // floating without gradient: class weights
  bool parameter_like = false;  // stays f32 when the others are f16/bf16 (batch norm's weights)
  bool positive_definite_gap =
      false;  // values are spread so that no two are closer than 1e-3: no ties
};

using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>& x)>;
using Oracle = std::function<std::vector<Array>(const std::vector<Array>& x)>;

struct Case {
  std::string op = {};       // the registered name
  std::string variant = {};  // distinguishes several cases of one op
  Call call = {};            // the public function on the operands; floating results first
  Oracle oracle = {};        // the same in f64 loops; may give fewer results than the call
  std::vector<Operand> operands = {{}};
  std::vector<std::vector<Shape>> shapes =
      {};                 // samples: one shape per operand; default: unary_ or binary_shapes()
  double factor = 1;      // multiplies the tolerances of value and gradient comparisons
  bool gradients = true;  // false where the function is not differentiable or random
  bool second_order = true;
  bool half = true;  // run in f16 and bf16 too
  // bf16 operands computed inside the op are rounded if the CPU multiplies bf16 itself.
  bool rounds_inside = false;
  bool single_op = true;  // false where the call wraps the op in others, which autocast would treat
                          // by their own tags
  bool exact_shapes_only = false;  // operands are always contiguous (views, in-place cases)
};

std::vector<Case>& all_cases();
inline void add_case(Case c) { all_cases().push_back(std::move(c)); }

// ---- oracles ------------------------------------------------------------------------------------

/** Returns the element of `x` at position `index` of the broadcast shape `out`. */
double broadcast_at(const Array& x, const Shape& out, std::int64_t index);

Oracle elementwise(double (*f)(double));
Oracle elementwise(double (*f)(double, double));
Oracle elementwise(double (*f)(double, double, double));

/** The oracle of ops that only move elements: builds the result by index arithmetic. `source(i)` is
 *  the row-major position in operand 0 of result element i, or -1 for zero. */
Array moved(const Array& x, const Shape& shape,
            const std::function<std::int64_t(std::int64_t)>& source);

// ---- usual shapes -------------------------------------------------------------------------------

const std::vector<std::vector<Shape>>&
unary_shapes();  // 0-dim, empty, 1-D, 2-D, 3-D, sizes that do not divide a vector
const std::vector<std::vector<Shape>>& binary_shapes();  // equal, broadcast both ways, 0-dim, empty

}  // namespace cases
