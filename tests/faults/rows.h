// The calls that are swept, one list per family.
#pragma once

#include <vector>

#include "sweep.h"

namespace faults {

std::vector<Row> tensor_rows();      // in-place ops, gradients, generators
std::vector<Row> model_rows();       // modules, averages, weights files
std::vector<Row> optimizer_rows();   // optimizers, clipping, schedules
std::vector<Row> session_rows();     // initialize, scopes, steps under a session
std::vector<Row> scaler_rows();      // GradScaler
std::vector<Row> checkpoint_rows();  // checkpoints, data loaders

}  // namespace faults
