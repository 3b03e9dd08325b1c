// All public ops, and how their comments are to be read.
//
// Notation: g is the incoming gradient, y the result. [] is the shape of a 0-dim tensor. "f32
// (f64)" means f32, or f64 where an operand is f64. "One rounding" means that the result is rounded
// to its dtype once, at the end.
//
// Precision names the op's precision tag, which says what mixed precision does to its inputs. Casts
// are on inside autocast and while a session with op casts is active.
//   match    no cast: the result has the dtype of the input
//   low      16-bit: inputs are cast to f16 or bf16
//   f32      inputs are cast to f32
//   promote  inputs are promoted to the widest of their dtypes, with casts on or off
//   banned   the op throws while casts are on
// Without mixed precision, match, low and f32 ops run in the dtypes of their inputs.
//
// Errors without an explanation: ShapeError for shapes that do not fit, DtypeError for unsupported
// dtypes, IndexError for a dimension or an index out of range, ValueError for an option out of
// range.
#pragma once

#include "ops/attention.h"
#include "ops/contraction.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/ctc_loss.h"
#include "ops/distance.h"
#include "ops/embedding.h"
#include "ops/exponents.h"
#include "ops/gather.h"
#include "ops/grid_sample.h"
#include "ops/index.h"
#include "ops/interpolate.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/local_response_norm.h"
#include "ops/loss.h"
#include "ops/margin_loss.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/operators.h"
#include "ops/overwrite.h"
#include "ops/pad.h"
#include "ops/pointwise.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/running_extreme.h"
#include "ops/search.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/unfold.h"
#include "ops/unpool.h"
