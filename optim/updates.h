// The update formulas of all optimizers, and their list, from which every device makes its kernels.
// Parsed by g++ and by nvcc.
#pragma once

#include "updates/adadelta.h"   // IWYU pragma: export
#include "updates/adafactor.h"  // IWYU pragma: export
#include "updates/adagrad.h"    // IWYU pragma: export
#include "updates/adam.h"       // IWYU pragma: export
#include "updates/adamax.h"     // IWYU pragma: export
#include "updates/lamb.h"       // IWYU pragma: export
#include "updates/larc.h"       // IWYU pragma: export
#include "updates/muon.h"       // IWYU pragma: export
#include "updates/nadam.h"      // IWYU pragma: export
#include "updates/novograd.h"   // IWYU pragma: export
#include "updates/radam.h"      // IWYU pragma: export
#include "updates/rmsprop.h"    // IWYU pragma: export
#include "updates/sgd.h"        // IWYU pragma: export

/** Expands to X(Update) for each update. */
#define MZ_FOR_EACH_UPDATE(X) \
  X(AdadeltaUpdate)           \
  X(AdafactorMeanUpdate)      \
  X(AdafactorUpdate)          \
  X(AdagradUpdate)            \
  X(AdamUpdate)               \
  X(AdamaxUpdate)             \
  X(LambDirectionUpdate)      \
  X(LambStepUpdate)           \
  X(LarcUpdate)               \
  X(MuonDirectionUpdate)      \
  X(MuonUpdate)               \
  X(NAdamProductUpdate)       \
  X(NAdamUpdate)              \
  X(NovoGradNormUpdate)       \
  X(NovoGradUpdate)           \
  X(RAdamUpdate)              \
  X(RmsPropUpdate)            \
  X(SgdUpdate)
