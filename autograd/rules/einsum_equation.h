// What an einsum equation says about its operands: a label for each of their dimensions, and those of the result.
// Sees: op.h.
// Read next: einsum_equation.cpp, einsum.cpp (the products).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "../../tensor/op.h"

namespace mezzo {

/** A dimension's name: the letter, or kEllipsis + its distance from the last dimension that `...` stands for. */
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

inline bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/** The labels of each operand's dimensions, and of the result's. */
struct LabelledOperands {
  std::vector<Labels> terms;
  Labels output;
};

/** Reads the equation and checks it against the operands. Errors: ValueError, ShapeError. */
LabelledOperands label_operands(const std::string& equation, Inputs in);

}  // namespace mezzo
