// bench --micro: the cost of single operations, and the matrix product against plain Eigen.
// Sees: mezzo.h.
// Read next: micro.cpp.
#pragma once

#include <string>
#include <vector>

namespace samples {

struct MicroResult {
  std::string what;
  double value;
  std::string unit;
  std::string target;  // what the project wants it to be; empty where it wants nothing
};

/** Measures everything; takes a few seconds. */
std::vector<MicroResult> run_micro();

}  // namespace samples
