// Mezzo's umbrella header: includes every public header of the library, in alphabetical order.
#pragma once

#include "amp/autocast/autocast.h"
#include "amp/autocast/custom_function.h"
#include "amp/autocast/functions.h"
#include "amp/autocast/overrides.h"
#include "amp/checkpoint/checkpoint.h"
#include "amp/diagnose/detect_nonfinite.h"
#include "amp/diagnose/nonfinite_gradient.h"
#include "amp/diagnose/trace.h"
#include "amp/report/report.h"
#include "amp/scaling/divergence.h"
#include "amp/scaling/grad_scaler.h"
#include "amp/session.h"
#include "autograd/custom_function.h"
#include "autograd/custom_op.h"
#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/gradcheck.h"
#include "autograd/hooks.h"
#include "autograd/ops.h"
#include "autograd/rebind.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/range.h"
#include "cuda/runtime/stream.h"
#include "measure/bench.h"
#include "measure/environment.h"
#include "measure/op_work.h"
#include "measure/profiler.h"
#include "measure/roof.h"
#include "measure/statistics.h"
#include "measure/text_table.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/data/cifar.h"
#include "nn/data/digits.h"
#include "nn/data/mnist.h"
#include "nn/distance.h"
#include "nn/dropout.h"
#include "nn/ema.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/model.h"
#include "nn/norm.h"
#include "nn/packed_sequence.h"
#include "nn/padding.h"
#include "nn/pooling.h"
#include "nn/position.h"
#include "nn/rearrange.h"
#include "nn/parallel/distributed_data_parallel.h"
#include "nn/parallel/reducer.h"
#include "nn/recompute.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "nn/serialize.h"
#include "nn/shaping.h"
#include "nn/transformer.h"
#include "optim/adagrad.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/lamb.h"
#include "optim/larc.h"
#include "optim/novograd.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tensor/comm/comm_error.h"
#include "tensor/comm/communicator.h"
#include "tensor/comm/reduction.h"
#include "tensor/comm/world.h"
#include "tensor/core/dispatch.h"
#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/core/macros.h"
#include "tensor/core/numerics.h"
#include "tensor/core/registry.h"
#include "tensor/core/tensor.h"
#include "tensor/core/version.h"
#include "tensor/device/cpu_isa.h"
#include "tensor/device/device.h"
#include "tensor/device/parallel.h"
#include "tensor/io/idx.h"
#include "tensor/io/safetensors.h"
#include "tensor/memory/allocator.h"
#include "tensor/random/generator.h"
#include "tensor/text/log.h"
#include "tensor/text/print.h"
#include "tensor/text/text.h"

/** Tensors, their ops and gradients. */
namespace mezzo {
/** Mixed precision: levels, casts, loss scaling, checkpoints. */
namespace amp {}
/** Times, memory and losses of a net at every level. */
namespace bench {}
/** Several processes: collective operations between them. */
namespace comm {}
/** Data sets and batches. */
namespace data {}
/** What is specific to NVIDIA GPUs: streams, captured steps, profiler ranges. */
namespace gpu {}
/** Layers, losses and models. */
namespace nn {}
/** Optimizers, schedules and gradient clipping. */
namespace optim {}
}  // namespace mezzo
