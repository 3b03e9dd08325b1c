// The golden cases: PyTorch's results for an op, stored in a file, and the call that must give the
// same. Rows of ../ops/rows add them; every differentiable op has one.
// See also: make.py (writes the files).
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>
#include <vector>

namespace golden {

using mezzo::Tensor;
using Tensors = std::vector<Tensor>;

struct Case {
  std::string name;                               // "op" or "op/variant"
  std::function<Tensors(const Tensors& x)> call;  // the public function on the stored operands
  double factor;                                  // multiplies the tolerances
  std::string file;                               // the golden file, without its ending
  std::string torch, operands;                    // what make.py evaluates
};

inline std::vector<Case>& all_cases() {
  static std::vector<Case> cases;
  return cases;
}

}  // namespace golden
