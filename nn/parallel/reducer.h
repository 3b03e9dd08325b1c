// Reducer: averages gradients over several processes when the program asks for it.
#pragma once

#include <vector>

#include "../../tensor/comm/communicator.h"
#include "../module.h"

namespace mezzo::comm {

/** Averages gradients on demand, as apex.parallel.Reducer does:
 *    comm::Reducer reducer(model, world.all());
 *    loss.backward();
 *    reducer.reduce();
 *  Unlike nn::DistributedDataParallel it does not overlap with backward(), averages whatever the
 *  gradients hold at that time, and takes no part in mixed precision: call it on gradients that are
 *  not scaled, or before scale_loss ends, on all ranks. */
class MZ_API Reducer {
 public:
  /** Gives all ranks the weights and buffers of rank 0, f32 masters included; collective. Errors:
   *  CommError if the ranks' models differ. */
  Reducer(const nn::Module& model, Communicator ranks);
  /** Gives all ranks the values of rank 0; collective. Errors: CommError if the ranks' tensors
   *  differ. */
  Reducer(std::vector<Tensor> params, Communicator ranks);

  /** Replaces each gradient by its average over the ranks; parameters without a gradient are left
   *  out. Sums of 16-bit gradients are made in f32 and rounded once. Collective. Errors: CommError
   *  if the ranks do not have gradients for the same parameters. */
  void reduce() const;

 private:
  std::vector<Tensor> params_;
  Communicator ranks_;
};

}  // namespace mezzo::comm
