// Helpers of the nn tests.
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

#include "../support/catch.h"
#include "../support/throws.h"

/** Returns names and shapes of the parameters: "weight [4,3], bias [4]". */
inline std::string keys(const mezzo::nn::Module& module) {
  std::string out;
  for (const auto& entry : module.state_dict())
    out += (out.empty() ? "" : ", ") + entry.first + " " + str(entry.second.shape());
  return out;
}

inline std::vector<double> values(const mezzo::Tensor& x) { return x.to_vector<double>(); }
