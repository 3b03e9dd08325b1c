// Shape rules, gradients and public functions of the ops in ctc_loss.h.
#include "ctc_loss.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../reduce/reduce.h"
#include "../wide.h"
#include "loss_support.h"

namespace mezzo::op {

OutSpecs CtcLossEach::infer(Inputs in, const Attrs&) {
  return {{{in[0].shape()[1]}, in[0].dtype()}};
}

OutSpecs CtcLossBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

std::span<OpInfo* const> ctc_loss_ops() { return infos_of(CtcLossOps{}); }

// The composite of ctc_loss, which checks the operands, computes the loss of each sample and
// reduces them; and the gradient of the losses.

namespace {

constexpr const char* kOp = "ctc_loss";

void require_integers(const char* what, const Tensor& x) {
  const bool fits = x.defined() && (x.dtype() == DType::i64 || x.dtype() == DType::i32);
  if (!fits)
    fail<DtypeError>(
        kOp, {.what = str(what, " must be integers"), .got = str(x), .expected = "i64 or i32"});
}

/** Returns one length per sample, each in 0..most. */
std::vector<std::int64_t> lengths_of(const char* what, const Tensor& lengths, std::int64_t samples,
                                     std::int64_t most) {
  require_integers(what, lengths);
  if (lengths.dim() > 1 || lengths.numel() != samples)
    fail<ShapeError>(kOp, {.what = str(what, " are not one per sample"),
                           .got = str(lengths),
                           .expected = str(samples, " of them")});
  std::vector<std::int64_t> values = lengths.to_vector<std::int64_t>();
  for (std::size_t n = 0; n < values.size(); ++n)
    if (values[n] < 0 || values[n] > most)
      fail<ValueError>(kOp, {.what = str(what, " are out of range"),
                             .got = str(values[n], " for sample ", n),
                             .expected = str("0..", most)});
  return values;
}

/** Returns the positions where each sample's labels start. Errors: ShapeError where 1-D targets do
 *  not fit the lengths. */
std::vector<std::int64_t> starts_of(const Tensor& targets,
                                    const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> starts;
  std::int64_t next = 0;
  for (const std::int64_t length : lengths) {
    starts.push_back(next);
    next += targets.dim() == 2 ? targets.shape()[1] : length;
  }
  if (targets.dim() == 1 && next != targets.numel())
    fail<ShapeError>(kOp, {.what = "the number of 1-D targets is not the sum of their lengths",
                           .got = str(targets, " for lengths that sum to ", next),
                           .expected = str(next, " targets")});
  return starts;
}

void require_labels(const Tensor& targets, const CtcAttrs& attrs, std::int64_t classes) {
  const std::vector<std::int64_t> labels = targets.to_vector<std::int64_t>();
  for (std::size_t n = 0; n < attrs.target_starts.size(); ++n)
    for (std::int64_t i = 0; i < attrs.target_lengths[n]; ++i) {
      const std::int64_t label = labels[static_cast<std::size_t>(attrs.target_starts[n] + i)];
      if (label < 0 || label >= classes || label == attrs.blank)
        fail<IndexError>(
            kOp, {.what = "label out of range",
                  .got = str(label, " at position ", i, " of sample ", n),
                  .expected = str("0..", classes - 1, " but not the blank, ", attrs.blank)});
    }
}

}  // namespace

std::vector<Tensor> CtcLoss::composite(Inputs in, const Attrs& attrs) {
  const Tensor& targets = in[1];
  require_floating(kOp, in[0]);
  if (attrs.reduction == Reduction::batchmean)
    fail<ValueError>(
        kOp,
        {.what = "reduction is out of range", .got = "batchmean", .expected = "none, sum or mean"});
  require_integers("targets", targets);
  const bool batched = in[0].dim() == 3;
  const std::int64_t samples = batched ? in[0].shape()[1] : 1;
  const bool fits =
      (batched || in[0].dim() == 2) &&
      (targets.dim() == 1 || (batched && targets.dim() == 2 && targets.shape()[0] == samples));
  if (!fits)
    fail<ShapeError>(kOp, {.what = "log-probabilities and targets do not fit each other",
                           .got = str(in.first(2)),
                           .expected = "[t,n,c] with [n,s] or 1-D targets, or [t,c] with [s]"});
  const Tensor x = batched ? in[0] : in[0].unsqueeze(1);
  const std::int64_t classes = x.shape()[2];
  if (attrs.blank < 0 || attrs.blank >= classes)
    fail<ValueError>(kOp, {.what = "blank is out of range",
                           .got = str(attrs.blank),
                           .expected = str("0..", classes - 1)});
  CtcAttrs each{attrs.blank, attrs.zero_infinity, {}, {}, {}};
  each.input_lengths = lengths_of("input_lengths", in[2], samples, x.shape()[0]);
  each.target_lengths = lengths_of("target_lengths", in[3], samples,
                                   targets.dim() == 2 ? targets.shape()[1] : targets.numel());
  each.target_starts = starts_of(targets, each.target_lengths);
  require_labels(targets, each, classes);
  Tensor loss = apply_with<CtcLossEach>(each, wide(x), targets.to(DType::i64));
  if (attrs.reduction == Reduction::mean) {
    std::vector<double> lengths;
    for (const std::int64_t length : each.target_lengths)
      lengths.push_back(static_cast<double>(std::max<std::int64_t>(1, length)));
    loss = loss / tensor(lengths, {samples}, {.dtype = loss.dtype()}).to(loss.device());
  }
  if (!batched) loss = loss.squeeze(0);
  return {reduce_terms(loss, attrs.reduction, in[0].dtype())};
}

Grads CtcLossEach::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<CtcLossBackward>(saved.attrs<CtcLossEach>(), gy[0], saved.inputs[0],
                                      saved.inputs[1]),
          {}};
}

}  // namespace mezzo::op

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
