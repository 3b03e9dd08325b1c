// Shape rules and public functions of the ops in exponents.h.
#include "exponents.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

namespace {

const OutSpec kCounts{Shape{kExponentBins}, DType::i64}, kMaximum{Shape{}, DType::f32};

}  // namespace

OutSpecs ExponentHistogram::infer(Inputs in, const NoAttrs&) {
  require_floating_operands(traits.name, in);
  return {kCounts, kMaximum};
}

OutSpecs ChangeHistograms::infer(Inputs in, const NoAttrs&) {
  require_floating_operands(traits.name, in);
  if (in[0].shape() != in[1].shape())
    fail<ShapeError>(traits.name, {.what = "before and after differ in shape",
                                   .got = str(in[0].shape(), " and ", in[1].shape())});
  return {kCounts, kMaximum, kCounts, kMaximum};
}

std::span<OpInfo* const> exponents_ops() { return infos_of(ExponentOps{}); }

}  // namespace mezzo::op

namespace mezzo {

static_assert(ExponentHistogram::kLeast == op::kLeastExponent &&
              ExponentHistogram::kGreatest == op::kGreatestExponent);

ExponentHistogram exponent_histogram(const Tensor& x) {
  return apply_pair<ExponentHistogram, op::ExponentHistogram>({}, x);
}

ChangeHistograms change_histograms(const Tensor& before, const Tensor& after) {
  std::array<Tensor, 4> results = apply_all<op::ChangeHistograms>({}, before, after);
  return {.change = {std::move(results[0]), std::move(results[1])},
          .ratio = {std::move(results[2]), std::move(results[3])}};
}

}  // namespace mezzo
