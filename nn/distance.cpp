#include "distance.h"

#include "../tensor/text/text.h"

namespace mezzo::nn {

CosineSimilarity::CosineSimilarity(const CosineSimilarityOptions& options) : options_(options) {
  set_summary(str("dim ", options.dim));
}

Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b) const {
  return cosine_similarity(a, b, options_);
}

PairwiseDistance::PairwiseDistance(const PairwiseDistanceOptions& options) : options_(options) {
  set_summary(str("p ", options.p));
}

Tensor PairwiseDistance::forward(const Tensor& a, const Tensor& b) const {
  return pairwise_distance(a, b, options_);
}

}  // namespace mezzo::nn
