#include "muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/elementwise/selection.h"
#include "../tensor/ops/matmul/matmul.h"
#include "../tensor/ops/reduce/reduce.h"
#include "../tensor/ops/reduce/statistics.h"
#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void MuonRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.not_negative("weight_decay", o.weight_decay);
  check.not_negative("momentum", o.momentum);
  check.not_negative("eps", o.eps);
  for (const double coefficient : o.ns_coefficients) check.finite("ns_coefficients", coefficient);
  check.require(o.ns_steps >= 0 && o.ns_steps < 100, "ns_steps", static_cast<double>(o.ns_steps),
                "a number in 0..99");
  check.require(o.adjust_lr_fn <= MuonRate::spectral_unclamped, "adjust_lr_fn",
                static_cast<double>(o.adjust_lr_fn), "a MuonRate");
}

void MuonRule::check_parameters(std::span<const Tensor> params) {
  for (std::size_t i = 0; i < params.size(); ++i)
    if (params[i].defined() && params[i].dim() != 2)
      fail<ShapeError>(type_name, {.what = str("parameter ", i, " is no matrix"),
                                   .got = str(params[i]),
                                   .expected = "two dimensions",
                                   .hint = "give the others to AdamW"});
}

namespace {

constexpr std::size_t kMuonDirection = kState + 1;  // a state of the formulas

double rate_of(MuonRate rate, const Tensor& matrix) {
  const auto rows = static_cast<double>(matrix.size(0)),
             columns = static_cast<double>(matrix.size(1));
  switch (rate) {
    case MuonRate::original: return std::sqrt(std::max(1.0, rows / columns));
    case MuonRate::match_rms_adamw: return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonRate::spectral_unclamped: return std::sqrt(rows / columns);
  }
  return 1;
}

/** Returns a matrix with the singular vectors of `direction` and singular values near 1, in bf16.
 */
Tensor orthogonalised(const Tensor& direction, const MuonSettings& s) {
  const bool tall = direction.size(0) > direction.size(1);
  Tensor x = direction.to(DType::bf16);
  if (tall) x = x.t();
  x = x / clamp(norm(x), {.min = s.eps});
  const auto [a, b, c] = s.ns_coefficients;
  for (std::int64_t i = 0; i < s.ns_steps; ++i) {
    const Tensor gram = mm(x, x.t());
    const Tensor update = addmm(gram, gram, gram, {.beta = b, .alpha = c});
    x = addmm(x, update, x, {.beta = a});
  }
  return tall ? x.t() : x;
}

}  // namespace

void MuonRule::run(std::vector<TensorTuple> tensors, std::span<MuonSettings> settings,
                   const UpdateCall& call) {
  add_workspace(tensors, kMuonDirection);
  // Directions are computed from the gradients and the means before the step. The last pass
  // computes the new means again, and alone changes anything.
  run_update(update_row<MuonDirectionUpdate>, tensors, settings.data(),
             {.inv_scale = call.inv_scale});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& direction = tensors[i][kMuonDirection];
    if (direction.numel() == 0) continue;
    direction.copy_(orthogonalised(direction, settings[i]));
    settings[i].rate = rate_of(settings[i].adjust_lr_fn, direction);
  }
  run_update(update_row<MuonUpdate>, std::move(tensors), settings.data(), call);
}

template class OptimizerOf<MuonRule>;

}  // namespace mezzo::optim
