// MixUp: blends the samples of a batch and their targets.
#pragma once

#include <cstdint>

#include "batch.h"

namespace mezzo::data {

/** Blends each sample of a batch with the one before it, and their targets: x becomes
 *  lambda x + (1 - lambda) roll(x, 1), where lambda has the distribution Beta(alpha, alpha). Takes
 *  one draw of the default generator in each call:
 *    const data::MixUp mixup{.num_classes = 10, .alpha = 0.2};
 *    for (const Batch& plain : batches) { const Batch batch = mixup(plain); ...
 *  Source: Zhang et al., mixup, ICLR 2018; torchvision.transforms.v2.MixUp. */
struct MZ_API MixUp {
  std::int64_t num_classes = 0;  // of targets that are classes; 0: targets are blended as they are
  double alpha = 1;              // above 0; the smaller, the less is blended

  /** Returns the blended batch, whose targets, for cross_entropy(), are probabilities [N,classes]
   * in the dtype of x. Errors: ValueError for invalid options; DtypeError for x that is not
   *  floating-point, and targets that are classes without num_classes; ShapeError for targets that
   *  are classes but not [N]. */
  Batch operator()(const Batch& batch) const;
};

}  // namespace mezzo::data
