// The update formulas of all optimizers.
// Sees: updates/. Parsed by g++ and by nvcc.
// Read next: updates/update.h (what a formula is), updates/sgd.h (the simplest one).
#pragma once

#include "updates/adagrad.h"   // IWYU pragma: export
#include "updates/adam.h"      // IWYU pragma: export
#include "updates/lamb.h"      // IWYU pragma: export
#include "updates/larc.h"      // IWYU pragma: export
#include "updates/novograd.h"  // IWYU pragma: export
#include "updates/sgd.h"       // IWYU pragma: export
