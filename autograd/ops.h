// Every public op.
// Sees: autograd/ops/*.h.
// Read next: ops/pointwise.h.
#pragma once

#include "ops/attention.h"
#include "ops/contraction.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/embedding.h"
#include "ops/gather.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/loss.h"
#include "ops/margin_loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/operators.h"
#include "ops/pad.h"
#include "ops/pointwise.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/recurrent.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/unfold.h"
