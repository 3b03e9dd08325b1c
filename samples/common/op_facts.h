// Facts about registered ops as text, for the op reference.
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

namespace samples {

/** One row of the op reference. */
struct OpFacts {
  std::string name, tag;
  // Casts of the inputs at O0, O1, ...: "as is", "f16", "promote", "error".
  std::vector<std::string> levels = {};
  std::vector<std::string> dtypes = {};   // accepted dtypes of the operands with values
  std::vector<std::string> devices = {};  // devices with a kernel; empty for composites and views
  std::string body;                       // "kernel", "view" or "composite"
  int derivatives = 0;  // number of times differentiable: 0, 1, or 2 for any number
  bool in_place = false, internal = false;
  std::string summary;
};

/** Returns the facts of every registered op, ordered by name. */
std::vector<OpFacts> all_op_facts();

}  // namespace samples
