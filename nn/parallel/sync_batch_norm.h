// Synchronised batch norm: batch norm layers that use the statistics of the batches of several
// processes.
#pragma once

#include <optional>

#include "../../tensor/comm/communicator.h"
#include "../module.h"

namespace mezzo::nn {

/** Options of convert_sync_batch_norm(). */
struct SyncBatchNormOptions {
  std::optional<comm::Communicator> comm = {};  // the ranks; none: all of comm::init()
  int group_size = 0;                           // consecutive ranks that share statistics; 0: all
};

/** Makes the batch norm layers of a model (BatchNorm1d, BatchNorm2d, BatchNorm3d) compute mean and
 *  variance over the batches of all ranks of a group in training mode, as if the batches were
 *  joined; returns their number. All ranks call it. Layers, parameters, buffers, names, flags and
 *  handles stay as they are, so it may be called before or after an optimizer is constructed. With
 *  one rank in a group, layers compute as before, also those that were converted earlier.
 *
 *  Each call of such a layer in training mode then exchanges 2 C + 1 numbers with the ranks of the
 *  group, and its backward 2 C: all ranks call the same layers in the same order. Their batches may
 *  differ in size and may be empty. The gradients of weight and bias are those of the rank's own
 *  results; data parallelism sums them. In evaluation mode nothing is exchanged. Under checkpoint()
 *  the exchange is repeated with the forward pass.
 *
 *  Precision: as of the layers; statistics are combined in f64 in the order of the ranks, so all
 *  ranks have the same bits. The running variance is the unbiased one of all ranks' values.
 *  Gradient: first only; Unsupported with create_graph.
 *  Errors: StateError if mixed precision is attached to the model, ValueError for a group size that
 *  does not divide the number of ranks, CommError. Calls of the layers throw as batch norm does,
 *  ShapeError on all ranks for one value per channel in the group, and CommError. */
MZ_API int convert_sync_batch_norm(const Module& model, const SyncBatchNormOptions& options = {});

}  // namespace mezzo::nn
