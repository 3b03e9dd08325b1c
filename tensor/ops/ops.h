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

#include "attention/attention.h"
#include "conv/conv.h"
#include "conv/unfold.h"
#include "create.h"
#include "distance/distance.h"
#include "distance/pair_distance.h"
#include "elementwise/exponents.h"
#include "elementwise/glu.h"
#include "elementwise/operators.h"
#include "elementwise/pointwise.h"
#include "elementwise/prelu.h"
#include "index/classes.h"
#include "index/embedding.h"
#include "index/gather.h"
#include "index/index.h"
#include "index/overwrite.h"
#include "index/search.h"
#include "linalg/cross.h"
#include "linalg/linalg.h"
#include "linalg/triangle.h"
#include "loss/cross_entropy.h"
#include "loss/ctc_loss.h"
#include "loss/loss.h"
#include "loss/margin_loss.h"
#include "matmul/contraction.h"
#include "matmul/matmul.h"
#include "norm/batch_norm.h"
#include "norm/group_norm.h"
#include "norm/layer_norm.h"
#include "norm/local_response_norm.h"
#include "norm/softmax.h"
#include "norm/sync_batch_norm.h"
#include "pool/pool.h"
#include "pool/unpool.h"
#include "random/random.h"
#include "recurrent/recurrent.h"
#include "reduce/arg_reduce.h"
#include "reduce/logcumsumexp.h"
#include "reduce/reduce.h"
#include "reduce/renorm.h"
#include "reduce/scan.h"
#include "reduce/statistics.h"
#include "resize/grid_sample.h"
#include "resize/interpolate.h"
#include "shape/join.h"
#include "shape/place.h"
#include "shape/rearrange.h"
#include "sort/running_extreme.h"
#include "sort/sort.h"
