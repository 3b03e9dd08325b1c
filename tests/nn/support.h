// Helpers of the nn tests.
#pragma once

// g++ forgets the pragma of nn/named_options.h where mezzo.h is in a precompiled header.
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

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
