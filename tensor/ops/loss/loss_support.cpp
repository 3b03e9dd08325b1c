#include "loss_support.h"

#include <mutex>
#include <set>
#include <string>

#include "../../core/elementwise_info.h"
#include "../../text/log.h"
#include "../../text/text.h"
#include "../elementwise/loss_terms.h"
#include "../elementwise/operators.h"
#include "../reduce/reduce.h"
#include "../wide.h"

namespace mezzo {

namespace {

/** Logs each warning once, and at most 100 different ones. */
void warn_once(const std::string& line) {
  constexpr std::size_t kMost = 100;
  static std::mutex mutex;
  static std::set<std::string> logged;
  {
    const std::lock_guard lock(mutex);
    if (logged.size() >= kMost || !logged.insert(line).second) return;
  }
  log_text(Severity::warning, line);
}

}  // namespace

void require_floating(std::string_view op, const Tensor& x) {
  if (!x.defined())
    fail<ValueError>(op, {.what = "an operand is undefined", .expected = "a tensor"});
  if (!is_floating(x.dtype()))
    fail<DtypeError>(op, {.what = "losses need floating-point tensors",
                          .got = str(x),
                          .expected = "a floating dtype",
                          .hint = "use x.to(f32)"});
}

void require_comparable(std::string_view op, const Tensor& x, const Tensor& target) {
  require_floating(op, x);
  require_floating(op, target);
  if (x.shape() == target.shape()) return;
  broadcast_shapes(x.shape(), target.shape(), std::string(op).c_str());
  warn_once(str(op, ": the shapes of prediction ", x.shape(), " and target ", target.shape(),
                " differ but broadcast; if this is intended, use target.expand(x.shape())"));
}

Tensor reduce_terms(const Tensor& terms, Reduction reduction, DType dtype) {
  switch (reduction) {
    case Reduction::none: return terms.to(dtype);
    case Reduction::sum: return sum(terms).to(dtype);
    case Reduction::mean: break;
    case Reduction::batchmean: return (sum(terms) / terms.shape()[0]).to(dtype);
  }
  return mean(terms).to(dtype);
}

void require_weight_fits(std::string_view op, std::string_view operand, const Tensor& weight,
                         const Shape& shape) {
  require_floating(op, weight);
  if (!is_expandable(weight.shape(), shape))
    fail<ShapeError>(op, {.what = str(operand, " does not fit the loss"),
                          .got = str(weight, " for a loss of shape ", shape),
                          .expected = "a shape that broadcasts to it"});
}

Tensor times_weight(std::string_view op, const Tensor& terms, const Tensor& weight) {
  if (!weight.defined()) return terms;
  require_weight_fits(op, "weight", weight, terms.shape());
  return apply<op::WeightedTerm>(terms, wide(weight.detach()));
}

}  // namespace mezzo
