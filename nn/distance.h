// Distances and angles between vectors as layers.
// Sees: model.h.
// Read next: ../autograd/ops/distance.h (shapes, gradients, errors).
#pragma once

#include "../autograd/ops/distance.h"
#include "model.h"

namespace mezzo::nn {

/** nn::CosineSimilarity{{.dim = 2}} calls cosine_similarity(a, b, {.dim = 2}). */
class MZ_API CosineSimilarity : public Model<CosineSimilarity> {
 public:
  explicit CosineSimilarity(const CosineSimilarityOptions& options = {});

  Tensor forward(const Tensor& a, const Tensor& b) const;

 private:
  CosineSimilarityOptions options_;
};

/** nn::PairwiseDistance{{.p = 1}} calls pairwise_distance(a, b, {.p = 1}). */
class MZ_API PairwiseDistance : public Model<PairwiseDistance> {
 public:
  explicit PairwiseDistance(const PairwiseDistanceOptions& options = {});

  Tensor forward(const Tensor& a, const Tensor& b) const;

 private:
  PairwiseDistanceOptions options_;
};

}  // namespace mezzo::nn
