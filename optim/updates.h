// Includes the update formulas of all optimizers. Parsed by g++ and by nvcc.
#pragma once

#include "updates/adagrad.h"   // IWYU pragma: export
#include "updates/adam.h"      // IWYU pragma: export
#include "updates/lamb.h"      // IWYU pragma: export
#include "updates/larc.h"      // IWYU pragma: export
#include "updates/novograd.h"  // IWYU pragma: export
#include "updates/sgd.h"       // IWYU pragma: export
