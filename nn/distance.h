// Layers that call cosine_similarity() and pairwise_distance().
// See also: tensor/ops/distance/distance.h (shapes, gradients, errors).
#pragma once

#include "../tensor/ops/distance/distance.h"
#include "model.h"

namespace mezzo::nn {

/** Calls cosine_similarity(): nn::CosineSimilarity{{.dim = 2}} computes
 *  cosine_similarity(a, b, {.dim = 2}). */
class MZ_API CosineSimilarity : public Model<CosineSimilarity> {
 public:
  /** Constructs the layer; by default vectors lie along dimension 1. */
  explicit CosineSimilarity(const CosineSimilarityOptions& options = {});

  /** Returns cosine_similarity(a, b) with the layer's options. */
  Tensor forward(const Tensor& a, const Tensor& b) const;

 private:
  CosineSimilarityOptions options_;
};

/** Calls pairwise_distance(): nn::PairwiseDistance{{.p = 1}} computes
 *  pairwise_distance(a, b, {.p = 1}). */
class MZ_API PairwiseDistance : public Model<PairwiseDistance> {
 public:
  /** Constructs the layer; by default with the 2-norm. */
  explicit PairwiseDistance(const PairwiseDistanceOptions& options = {});

  /** Returns pairwise_distance(a, b) with the layer's options. */
  Tensor forward(const Tensor& a, const Tensor& b) const;

 private:
  PairwiseDistanceOptions options_;
};

}  // namespace mezzo::nn
