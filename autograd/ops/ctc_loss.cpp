#include "ctc_loss.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/ctc_loss.h"
#include "create.h"

namespace mezzo {

namespace {

Tensor as_tensor(const std::vector<std::int64_t>& lengths) {
  return tensor(std::vector<double>(lengths.begin(), lengths.end()), {.dtype = DType::i64});
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options) {
  return apply_with<op::CtcLoss>({options.blank, options.reduction, options.zero_infinity},
                                 log_probs, targets, input_lengths, target_lengths);
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcLossOptions& options) {
  return ctc_loss(log_probs, targets, as_tensor(input_lengths), as_tensor(target_lengths), options);
}

}  // namespace mezzo
