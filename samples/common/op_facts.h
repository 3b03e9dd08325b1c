// What the registry says about an op, put into words for a table.
// Sees: mezzo.h.
// Read next: ../ops.cpp (the program that prints them).
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

namespace samples {

/** One row of the op reference. */
struct OpFacts {
  std::string name, tag;
  std::vector<std::string> levels =
      {};  // what becomes of the inputs at O0, O1, ...: "as is", "f16", "widest", "error"
  std::vector<std::string> dtypes = {};  // of the operands that carry values
  std::vector<std::string> devices =
      {};               // with a kernel; empty where the op is made of others or moves nothing
  std::string body;     // "kernel", "view" or "composite"
  int derivatives = 0;  // how many times differentiable: 0, 1, or 2 for any number
  bool in_place = false, internal = false;
  std::string summary;
};

/** The facts of every row of the registry, by name. */
std::vector<OpFacts> all_op_facts();

}  // namespace samples
