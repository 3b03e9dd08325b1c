// The headers that an op struct outside the library needs: include this, write the struct, call
// apply<MyOp>(...). The op has its own precision tag, gradient and op info.
// See also: tensor/core/elementwise.h (elementwise op structs), tensor/core/op.h (other op
// structs).
#pragma once

#include "../core/dispatch.h"
#include "../cpu/elementwise_kernel.h"
#include "elementwise/elementwise_rule.h"
