#include "gradcheck.h"

#include <cmath>

#include "../autograd/engine.h"
#include "../tensor/core/dispatch.h"
#include "../tensor/ops/create.h"
#include "../tensor/text/text.h"

namespace mezzo {

namespace {

void require_checkable(const std::vector<Tensor>& inputs) {
  for (const Tensor& x : inputs) {
    if (!x.defined() || !x.requires_grad()) continue;
    if (x.dtype() != DType::f64)
      fail<DtypeError>("gradcheck", {.what = "finite differences need double precision",
                                     .got = str(x),
                                     .expected = "f64 inputs",
                                     .hint = "use x.to(f64)"});
    if (!x.is_leaf())
      fail<StateError>("gradcheck", {.what = "an input is not a leaf",
                                     .got = str(x),
                                     .hint = "use x.detach().requires_grad_()"});
  }
}

/** Overwrites element `index` (in row-major order) of a tensor of any strides, on any device. */
void write_element(const Tensor& x, std::int64_t index, double value) {
  std::int64_t offset = 0;
  for (int d = x.dim() - 1; d >= 0; --d) {
    offset += index % x.shape()[d] * x.strides()[d];
    index /= x.shape()[d];
  }
  if (x.device() == cpu)
    x.data<double>()[offset] = value;
  else
    x.detach().as_strided({}, {}, offset).fill_(value);
}

using Values = std::vector<std::vector<double>>;

Values evaluate(const CheckedFunction& f, const std::vector<Tensor>& inputs) {
  Values values;
  for (const Tensor& y : f(inputs))
    values.push_back(is_floating(y.dtype()) ? y.to_vector<double>() : std::vector<double>{});
  return values;
}

/** Returns the derivatives of all outputs with respect to element k of input i, whose value is x,
 *  by central difference. */
Values numeric_column(const CheckedFunction& f, const std::vector<Tensor>& inputs, std::size_t i,
                      std::int64_t k, double x, double eps) {
  write_element(inputs[i], k, x + eps);
  Values high = evaluate(f, inputs);
  write_element(inputs[i], k, x - eps);
  const Values low = evaluate(f, inputs);
  write_element(inputs[i], k, x);
  for (std::size_t o = 0; o < high.size(); ++o)
    for (std::size_t j = 0; j < high[o].size(); ++j)
      high[o][j] = (high[o][j] - low[o][j]) / (2 * eps);
  return high;
}

/** Returns the gradients of one output element with respect to every input; empty where an input
 *  requires none. */
Values analytic_row(const Tensor& output, std::int64_t element_index,
                    const std::vector<Tensor>& inputs) {
  std::vector<Tensor> wanted;
  for (const Tensor& x : inputs)
    if (x.defined() && x.requires_grad()) wanted.push_back(x);
  const Tensor seed = zeros_like(output);
  write_element(seed, element_index, 1);
  const std::vector<Tensor> gradients =
      grad(std::span(&output, 1), wanted, {.retain_graph = true, .allow_unused = true},
           std::span(&seed, 1));
  Values rows;
  std::size_t next = 0;
  for (const Tensor& x : inputs) {
    rows.emplace_back();
    if (!x.defined() || !x.requires_grad()) continue;
    const Tensor& g = gradients[next++];
    rows.back() = g.defined() ? g.to_vector<double>()
                              : std::vector<double>(static_cast<std::size_t>(x.numel()), 0.0);
  }
  return rows;
}

bool agree(double analytic, double numeric, const GradcheckOptions& options) {
  if (std::isnan(analytic) || std::isnan(numeric))
    return std::isnan(analytic) && std::isnan(numeric);
  return std::abs(analytic - numeric) <= options.atol + options.rtol * std::abs(numeric);
}

/** Returns n values from -1 to 1. `state` is that of the generator. */
std::vector<double> pseudorandom(std::int64_t n, double& state) {
  std::vector<double> values;
  for (std::int64_t j = 0; j < n; ++j) {
    state = std::fmod(state * 1.618033988749895 + 0.31, 2.0);
    values.push_back(state - 1);
  }
  return values;
}

/** Returns a tensor of these values with the shape, the dtype and the device of x. */
Tensor tensor_like(const Tensor& x, const std::vector<double>& values) {
  return tensor(values, x.shape(), {.dtype = x.dtype(), .device = x.device()});
}

/** Returns the outputs of f where x is moved by `step` along v, and restores x. */
Values evaluate_along(const CheckedFunction& f, const std::vector<Tensor>& inputs, const Tensor& x,
                      const std::vector<double>& v, double step) {
  const std::vector<double> before = x.to_vector<double>();
  std::vector<double> moved = before;
  for (std::size_t k = 0; k < moved.size(); ++k) moved[k] += step * v[k];
  x.copy_(tensor_like(x, moved));
  Values values = evaluate(f, inputs);
  x.copy_(tensor_like(x, before));
  return values;
}

/** gradcheck() in fast mode. */
GradcheckResult check_directions(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                                 const GradcheckOptions& options) {
  double state = 0.3;
  Values weights;
  std::vector<Tensor> outputs, seeds, wanted;
  std::vector<std::size_t> places;  // of `wanted` in the inputs
  // Tensors without elements have no derivatives; the mean of none would make others NaN.
  for (const Tensor& y : f(inputs)) {
    weights.push_back(pseudorandom(is_floating(y.dtype()) ? y.numel() : 0, state));
    if (!y.requires_grad() || y.numel() == 0) continue;
    outputs.push_back(y);
    seeds.push_back(tensor_like(y, weights.back()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad() && inputs[i].numel() > 0) {
      wanted.push_back(inputs[i]);
      places.push_back(i);
    }
  std::vector<Tensor> gradients(wanted.size());
  if (!outputs.empty()) gradients = grad(outputs, wanted, {.allow_unused = true}, seeds);
  const NoGrad no_grad;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> v = pseudorandom(wanted[i].numel(), state);
    const Values high = evaluate_along(f, inputs, wanted[i], v, options.eps),
                 low = evaluate_along(f, inputs, wanted[i], v, -options.eps);
    double numeric = 0, tolerance = 0;
    for (std::size_t o = 0; o < high.size(); ++o)
      for (std::size_t j = 0; j < high[o].size(); ++j) {
        const double slope = (high[o][j] - low[o][j]) / (2 * options.eps), u = weights[o][j];
        numeric += u * slope;
        tolerance += std::abs(u) * (options.atol + options.rtol * std::abs(slope));
      }
    double analytic = 0;
    if (gradients[i].defined()) {
      const std::vector<double> g = gradients[i].to_vector<double>();
      for (std::size_t k = 0; k < g.size(); ++k) analytic += g[k] * v[k];
    }
    if (!(std::abs(analytic - numeric) <= tolerance) &&
        !(std::isnan(analytic) && std::isnan(numeric)))
      return {false, str("d outputs / d input ", places[i], ", along a direction: analytic ",
                         analytic, ", numeric ", numeric)};
  }
  return {};
}

}  // namespace

GradcheckResult gradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  require_checkable(inputs);
  if (options.fast_mode) return check_directions(f, inputs, options);
  const std::vector<Tensor> outputs = f(inputs);
  // analytic[o][j][i][k]: output o, element j; input i, element k
  std::vector<std::vector<Values>> analytic(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o)
    for (std::int64_t j = 0; outputs[o].requires_grad() && j < outputs[o].numel(); ++j)
      analytic[o].push_back(analytic_row(outputs[o], j, inputs));
  const NoGrad no_grad;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    const std::vector<double> values = inputs[i].to_vector<double>();
    for (std::int64_t k = 0; k < inputs[i].numel(); ++k) {
      const Values numeric =
          numeric_column(f, inputs, i, k, values[static_cast<std::size_t>(k)], options.eps);
      for (std::size_t o = 0; o < numeric.size(); ++o)
        for (std::size_t j = 0; j < numeric[o].size(); ++j) {
          const double expected = numeric[o][j];
          const double got =
              outputs[o].requires_grad() ? analytic[o][j][i][static_cast<std::size_t>(k)] : 0;
          if (!agree(got, expected, options))
            return {false, str("d output ", o, "[", j, "] / d input ", i, "[", k, "]: analytic ",
                               got, ", numeric ", expected)};
        }
    }
  }
  return {};
}

GradcheckResult gradgradcheck(const CheckedFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  require_checkable(inputs);
  // Incoming gradients are additional inputs of the gradient function.
  std::vector<Tensor> all = inputs;
  std::vector<std::size_t> differentiable;
  const std::vector<Tensor> probe = f(inputs);
  double value = 0.7;
  for (std::size_t o = 0; o < probe.size(); ++o) {
    if (!probe[o].requires_grad()) continue;
    all.push_back(
        tensor(pseudorandom(probe[o].numel(), value), probe[o].shape(),
               {.dtype = DType::f64, .device = probe[o].device(), .requires_grad = true}));
    differentiable.push_back(o);
  }
  if (differentiable.empty()) return {};
  const auto gradient = [&](const std::vector<Tensor>& arguments) {
    const GradMode recording(true);
    const std::vector<Tensor> operands(
        arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    const std::vector<Tensor> incoming(
        arguments.begin() + static_cast<std::ptrdiff_t>(inputs.size()), arguments.end());
    const std::vector<Tensor> results = f(operands);
    std::vector<Tensor> outputs, wanted;
    for (const std::size_t o : differentiable) outputs.push_back(results[o]);
    for (const Tensor& x : operands)
      if (x.defined() && x.requires_grad()) wanted.push_back(x);
    std::vector<Tensor> gradients =
        grad(outputs, wanted, {.create_graph = true, .allow_unused = true}, incoming);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined()) gradients[i] = zeros_like(wanted[i]);
    return gradients;
  };
  return gradcheck(gradient, all, options);
}

}  // namespace mezzo
