// What an op struct outside the library needs: include this, write the struct, call apply<MyOp>(...). It has its own tag, gradient and row.
// Sees: elementwise_rule.h.
// Read next: ../tensor/elementwise.h (what an op struct looks like), ../tensor/op.h (the structured form).
#pragma once

#include "../tensor/dispatch.h"
#include "elementwise_rule.h"
