// Connectionist temporal classification.
// Sees: tensor.
// Read next: loss.h, ../../tensor/ops/ctc_loss.h.
#pragma once

#include <vector>

#include "../../tensor/reduction.h"
#include "../../tensor/tensor.h"

namespace mezzo {

struct CtcLossOptions {
  std::int64_t blank = 0;  // the class that stands for "no label"
  Reduction reduction =
      Reduction::mean;         // the mean divides each loss by its number of labels, at least 1, first
  bool zero_infinity = false;  // labels that no alignment fits cost nothing instead of infinitely much
};

/** Negative log-likelihood of a sequence of labels, summed over all ways to spread it over a longer sequence of outputs.
 *  Shape: log_probs [t,n,c] with targets [n,s], padded, or all in a row, 1-D; or [t,c] with [s]. Lengths: one integer per sample.
 *  Precision: full; the sums run in f64, one rounding.
 *  Gradient: as if log_probs were log_softmax of scores and these were asked for: exp(log_probs) less what the alignments expect, 0 behind
 *  an input's end. Finite differences on log_probs alone do not match it; on the scores they do. First order only.
 *  No labels: the path of blanks alone. No alignment: infinite, with a gradient of nan; see zero_infinity.
 *  Errors: ShapeError, DtypeError; ValueError for lengths or a blank out of range; IndexError for a label that is no class, or the blank.
 *  Source: Graves, Fernandez, Gomez, Schmidhuber, ICML 2006. */
MZ_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, const CtcLossOptions& options = {});
MZ_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                       const std::vector<std::int64_t>& input_lengths,
                       const std::vector<std::int64_t>& target_lengths, const CtcLossOptions& options = {});

}  // namespace mezzo
