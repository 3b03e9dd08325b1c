#include "lbfgs.h"

#include <algorithm>
#include <cmath>

#include "../autograd/gradient_mark.h"
#include "../autograd/gradient_receiver.h"
#include "../tensor/core/dispatch.h"
#include "../tensor/device/capture.h"
#include "../tensor/ops/create.h"
#include "../tensor/ops/elementwise/arithmetic.h"
#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/elementwise/rounding.h"
#include "../tensor/ops/matmul/matmul.h"
#include "../tensor/ops/reduce/arg_reduce.h"
#include "../tensor/ops/reduce/reduce.h"
#include "../tensor/ops/shape/join.h"
#include "../tensor/text/text.h"
#include "line_search.h"
#include "option_checks.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kStep = "LBFGS.step";

void check(const LbfgsOptions& o) {
  const OptionChecks check("LBFGS");
  const auto at_least_one = [&](std::string_view option, std::int64_t got) {
    check.require(got >= 1, option, static_cast<double>(got), "at least 1");
  };
  check.not_negative("lr", o.lr);
  at_least_one("max_iter", o.max_iter);
  if (o.max_eval) at_least_one("max_eval", *o.max_eval);
  check.not_negative("tolerance_grad", o.tolerance_grad);
  check.not_negative("tolerance_change", o.tolerance_change);
  at_least_one("history_size", o.history_size);
  check.require(o.line_search_fn <= LineSearch::strong_wolfe, "line_search_fn",
                static_cast<double>(o.line_search_fn), "a LineSearch");
}

/** Returns the largest magnitude in a vector; NaN if it has one. */
double largest(const Tensor& x) {
  const NoGradNoCasts plain_ops;
  return x.numel() == 0 ? 0 : max(abs(x)).item<double>();
}

/** Returns the factor of the learning rate in the first iteration. */
double first_length(const Tensor& grad) {
  const NoGradNoCasts plain_ops;
  return std::min(1.0, 1 / sum(abs(grad)).item<double>());
}

Tensor product(const Tensor& x, double factor) {
  const NoGradNoCasts plain_ops;
  return x * factor;
}

double inner(const Tensor& a, const Tensor& b) {
  const NoGradNoCasts plain_ops;
  return dot(a, b).item<double>();
}

const ParamGroup<LbfgsOptions>& only(const std::vector<ParamGroup<LbfgsOptions>>& groups) {
  if (groups.size() != 1)
    fail<ValueError>("LBFGS", {.what = "takes one group of parameters",
                               .got = str(groups.size(), " groups"),
                               .expected = "1 group"});
  return groups[0];
}

}  // namespace

LBFGS::LBFGS(const std::vector<Tensor>& params, const LbfgsOptions& options) : options_(options) {
  if (!options_.max_eval) options_.max_eval = std::max<std::int64_t>(1, options.max_iter * 5 / 4);
  check(options_);
  add_slots(params);
  require_parameters();
}

LBFGS::LBFGS(const std::vector<ParamGroup<LbfgsOptions>>& groups)
    : LBFGS(only(groups).params, only(groups).options) {}

void LBFGS::update(std::span<const ParamUpdate>, const UpdateCall&) { refuse_closure(kStep); }

void LBFGS::visit_options(std::size_t, const OptionVisitor& visit, bool apply) {
  LbfgsOptions o = options_;
  const auto visit_one = [&]<class T>(std::string_view name, T& value) {
    value = static_cast<T>(visit(name, static_cast<double>(value)));
  };
  visit_one("lr", o.lr);
  visit_one("max_iter", o.max_iter);
  visit_one("max_eval", *o.max_eval);
  visit_one("tolerance_grad", o.tolerance_grad);
  visit_one("tolerance_change", o.tolerance_change);
  visit_one("history_size", o.history_size);
  visit_one("line_search_fn", o.line_search_fn);
  visit_one("maximize", o.maximize);
  check(o);
  if (apply) options_ = o;
}

// ---- parameters as one vector -------------------------------------------------------------------

DType LBFGS::dtype() const {
  for (const Slot& slot : slots(0))
    if (slot.param.dtype() == DType::f64) return DType::f64;
  return DType::f32;
}

std::int64_t LBFGS::numel() const {
  std::int64_t n = 0;
  for (const Slot& slot : slots(0)) n += slot.param.numel();
  return n;
}

/** Returns all gradients; zeros where there is none. */
Tensor LBFGS::flat_gradient() const {
  const NoGradNoCasts plain_ops;
  std::vector<Tensor> parts;
  bool any = false;
  for (std::size_t i = 0; i < slots(0).size(); ++i) {
    const Tensor& param = slots(0)[i].param;
    require_reduced(param, kStep, "leave no_sync before the last backward of the closure");
    require_unscaled_gradient(param, kStep);
    const Tensor grad = param.grad();
    any |= grad.defined();
    if (grad.defined() && !(grad.shape() == param.shape() && grad.device() == param.device()))
      fail<ShapeError>(kStep, {.what = str("the gradient of parameter ", i, " does not fit it"),
                               .got = str(grad, " for ", param),
                               .expected = "one shape and device"});
    parts.push_back((grad.defined() ? grad.detach() : zeros_like(param)).reshape({-1}).to(dtype()));
  }
  if (!any)
    fail<StateError>(kStep,
                     {.what = "no parameter has a gradient",
                      .expected = "a closure that calls backward of the loss",
                      .hint = "call zero_grad, compute the loss, call its backward, return it"});
  const Tensor grad = cat(parts);
  return options_.maximize ? -grad : grad;
}

/** Adds length * direction to the parameters. */
void LBFGS::move(const Tensor& direction, double length) const {
  const NoGradNoCasts plain_ops;
  std::int64_t begin = 0;
  for (const Slot& slot : slots(0)) {
    const Tensor param = slot.param.detach();
    const Tensor part = direction.narrow(0, begin, param.numel()).reshape(param.shape());
    begin += param.numel();
    if (param.dtype() == part.dtype())
      add_(param, part, {.alpha = length});
    else
      param.copy_(add(param.to(part.dtype()), part, {.alpha = length}));
  }
}

// ---- the step -----------------------------------------------------------------------------------

LBFGS::Evaluation LBFGS::evaluate(const std::function<Tensor()>& closure) const {
  Evaluation out;
  {
    const GradMode recording(true);
    out.loss = closure();
  }
  if (!out.loss.defined() || out.loss.numel() != 1)
    fail<ValueError>(kStep, {.what = "the closure returned no loss",
                             .got = out.loss.defined() ? str(out.loss) : "an undefined tensor",
                             .expected = "one number"});
  out.value = out.loss.item<double>();
  if (options_.maximize) out.value = -out.value;
  out.grad = flat_gradient();
  return out;
}

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  const TraceRange range(kStep);
  if (!closure) fail<ValueError>(kStep, {.what = "the closure is empty"});
  if (Capture::current())
    fail<StateError>(kStep, {.what = "takes a closure, and cannot be captured",
                             .hint = "step outside of the captured function"});
  Evaluation first = evaluate(closure);
  const Tensor loss = first.loss;
  begin_step();
  if (!(largest(first.grad) <= options_.tolerance_grad)) iterate(std::move(first), closure);
  end_step();
  return loss;
}

/** Iterates from the parameters that `now` belongs to. */
void LBFGS::iterate(Evaluation now, const std::function<Tensor()>& closure) {
  std::int64_t evaluations = 1;
  for (std::int64_t n = 1; n <= options_.max_iter; ++n) {
    const bool is_first = !history_.prev_grad.defined();
    const Tensor d = direction(now.grad);
    const double before = now.value, slope = inner(now.grad, d);
    double length = options_.lr;
    if (is_first) length *= first_length(now.grad);
    history_.prev_grad = now.grad;
    history_.last_step = product(d, length);
    if (slope > -options_.tolerance_change) return;
    const bool is_last = n == options_.max_iter;
    const bool searches = options_.line_search_fn == LineSearch::strong_wolfe;
    std::int64_t more = is_last ? 0 : 1;
    if (searches) {
      more = *options_.max_eval - evaluations;
      now = search(closure, now, d, slope, length, more);
      history_.last_step = product(d, length);
    }
    move(d, length);
    if (!searches && !is_last) now = evaluate(closure);
    evaluations += more;
    if (is_last || evaluations >= *options_.max_eval) return;
    if (largest(now.grad) <= options_.tolerance_grad) return;
    if (largest(history_.last_step) <= options_.tolerance_change) return;
    if (std::abs(now.value - before) < options_.tolerance_change) return;
  }
}

void LBFGS::History::add(const Tensor& of_grad, const Tensor& of_params, std::int64_t most) {
  const Tensor curvature = dot(of_grad, of_params);
  if (!(curvature.item<double>() > 1e-10)) return;
  if (static_cast<std::int64_t>(pairs.size()) >= most) pairs.erase(pairs.begin());
  pairs.push_back({of_grad, of_params, 1 / curvature});
  scale = curvature / dot(of_grad, of_grad);
}

/** Returns the direction of an iteration: minus the gradient, multiplied by the approximate inverse
 *  of the Hessian. */
Tensor LBFGS::direction(const Tensor& grad) {
  const NoGradNoCasts plain_ops;
  if (!history_.prev_grad.defined()) return -grad;
  history_.add(grad - history_.prev_grad, history_.last_step, options_.history_size);
  const std::vector<Pair>& pairs = history_.pairs;
  std::vector<Tensor> factors(pairs.size());
  const Tensor d = -grad;
  for (std::size_t i = pairs.size(); i-- > 0;) {
    factors[i] = dot(pairs[i].of_params, d) * pairs[i].inverse;
    sub_(d, pairs[i].of_grad * factors[i]);
  }
  if (history_.scale.defined()) mul_(d, history_.scale);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Tensor factor = dot(pairs[i].of_grad, d) * pairs[i].inverse;
    add_(d, pairs[i].of_params * (factors[i] - factor));
  }
  return d;
}

/** Searches along a direction, from `length` on and with up to `evaluations` evaluations. Sets both
 *  to those of the result. The parameters stay as they are. */
LBFGS::Evaluation LBFGS::search(const std::function<Tensor()>& closure, const Evaluation& from,
                                const Tensor& direction, double slope, double& length,
                                std::int64_t& evaluations) const {
  std::vector<Tensor> start;
  for (const Slot& slot : slots(0)) start.push_back(slot.param.detach().clone());
  const auto restore = [&] {
    const NoGradNoCasts plain_ops;
    for (std::size_t i = 0; i < start.size(); ++i) slots(0)[i].param.detach().copy_(start[i]);
  };
  const auto at = [&](double t) {
    move(direction, t);
    try {
      const Evaluation found = evaluate(closure);
      restore();
      return LinePoint{t, found.value, inner(found.grad, direction), found.grad};
    } catch (...) {
      restore();
      throw;
    }
  };
  const LinePoint found = strong_wolfe(at, {0, from.value, slope, from.grad},
                                       {.first = length,
                                        .largest_step = largest(direction),
                                        .tolerance_change = options_.tolerance_change,
                                        .max_evaluations = evaluations},
                                       evaluations);
  length = found.t;
  return {{}, found.loss, found.grad};
}

// ---- saving and loading -------------------------------------------------------------------------

StateDict LBFGS::state_dict(const Names& names) const {
  StateDict out = Optimizer::state_dict(names);
  if (!history_.prev_grad.defined()) return out;
  const NoGradNoCasts plain_ops;
  const std::vector<std::string> keys = keys_of(names);
  const auto stacked = [&](Tensor Pair::* member) {
    std::vector<Tensor> rows;
    for (const Pair& pair : history_.pairs) rows.push_back(pair.*member);
    return rows.empty() ? Tensor{} : stack(rows);
  };
  const Tensor of_grad = stacked(&Pair::of_grad), of_params = stacked(&Pair::of_params);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Tensor& param = slots(0)[i].param;
    const auto save = [&](const char* name, const Tensor& all) {
      if (!all.defined()) return;
      const Tensor part = all.narrow(-1, begin, param.numel()).clone().contiguous();
      out.tensors[str(keys[i], ".", name)] = all.dim() == 1 ? part.reshape(param.shape()) : part;
    };
    save("old_dirs", of_grad);
    save("old_stps", of_params);
    save("prev_grad", history_.prev_grad);
    save("last_step", history_.last_step);
    begin += param.numel();
  }
  return out;
}

/** Takes the history out of a saved state. */
class LBFGS::HistoryLoad {
 public:
  HistoryLoad(const LBFGS& optimizer, StateDict& saved, const std::vector<std::string>& keys)
      : optimizer_(optimizer), saved_(saved), keys_(keys) {}

  /** Returns the history. Errors: ValueError. */
  History taken() {
    const Tensor of_grad = take("old_dirs", true), of_params = take("old_stps", true);
    History out;
    out.prev_grad = take("prev_grad", false);
    out.last_step = take("last_step", false);
    if (of_grad.defined() != of_params.defined() ||
        (of_grad.defined() && !(of_grad.shape() == of_params.shape())))
      note("old_dirs and old_stps differ in number");
    if (out.prev_grad.defined() != out.last_step.defined() ||
        (of_grad.defined() && !out.prev_grad.defined()))
      note("prev_grad and last_step are not both there");
    if (!faults_.empty())
      fail<ValueError>("LBFGS.load_state_dict",
                       {.what = "the saved history does not fit this optimizer",
                        .got = faults_,
                        .expected = "the state of an LBFGS over the same parameters"});
    if (of_grad.defined())
      for (std::int64_t i = 0; i < of_grad.size(0); ++i)
        out.add(of_grad.select(0, i).clone(), of_params.select(0, i).clone(), of_grad.size(0));
    return out;
  }

 private:
  /** Returns the parts of all parameters, joined; undefined if there are none. */
  Tensor take(const char* name, bool has_rows) {
    std::vector<Tensor> parts;
    std::optional<std::int64_t> rows;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const std::string key = str(keys_[i], ".", name);
      const auto found = saved_.tensors.find(key);
      if (found == saved_.tensors.end()) continue;
      const Tensor x = found->second;
      saved_.tensors.erase(key);
      const Tensor& param = optimizer_.slots(0)[i].param;
      if (has_rows && x.defined() && x.dim() == 2 && !rows) rows = x.size(0);
      const Shape expected = has_rows ? Shape{rows.value_or(0), param.numel()} : param.shape();
      if (!x.defined() || !is_floating(x.dtype()) || !(x.shape() == expected))
        note(str(key, " is ", x, " for ", param));
      else
        parts.push_back(
            x.detach()
                .to(param.device())
                .to(optimizer_.dtype())
                .reshape(has_rows ? Shape{*rows, param.numel()} : Shape{param.numel()}));
    }
    if (parts.empty()) return {};
    if (parts.size() == keys_.size()) return cat(parts, -1);
    if (faults_.empty()) note(str(name, " of some parameters is missing"));
    return {};
  }

  void note(const std::string& fault) { faults_ += (faults_.empty() ? "" : ", ") + fault; }

  const LBFGS& optimizer_;
  StateDict& saved_;
  const std::vector<std::string>& keys_;
  std::string faults_;
};

std::function<void()> LBFGS::stage(const StateDict& saved, const Names& names,
                                   std::span<const std::pair<Tensor, Tensor>> incoming) {
  const NoGradNoCasts plain_ops;
  StateDict rest = saved;
  const std::vector<std::string> keys = keys_of(names);
  const auto history = std::make_shared<History>(HistoryLoad(*this, rest, keys).taken());
  return [this, history, others = Optimizer::stage(rest, names, incoming)] {
    others();
    history_ = std::move(*history);
  };
}

}  // namespace mezzo::optim
