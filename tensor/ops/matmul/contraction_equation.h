// Parsing einsum equations: a label for each dimension of the operands and of the result.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "../../core/op.h"

namespace mezzo {

/** The name of a dimension: the letter, or, under `...`, kEllipsis + its distance from the last of
 *  those dimensions. */
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

inline bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/** The labels of the dimensions of each operand and of the result. */
struct LabelledOperands {
  std::vector<Labels> terms;
  Labels output;
};

/** Parses the equation and checks it against the operands. Errors: ValueError, ShapeError. */
LabelledOperands label_operands(const std::string& equation, Inputs in);

}  // namespace mezzo
