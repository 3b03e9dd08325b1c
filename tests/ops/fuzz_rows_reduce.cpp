// Rows of the reductions, cumulative ops, softmax, norms over dimensions and distances.
#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

using Numbers = std::vector<std::int64_t>;

template <Tensor (*f)(const Tensor&, const Dims&, const KeepDimOptions&)> Trial kept(Draw& d) {
  const Tensor x = d.tensor();
  const Numbers dims = d.numbers(2, -2, 2);
  const bool keepdim = d.flag();
  return {[=] { return list(f(x, dims, {keepdim})); }, gives(reduced(sizes(x), dims, keepdim))};
}

/** Calls a reduction that converts its operand first. */
template <Tensor (*f)(const Tensor&, const Dims&, const ReduceOptions&)> Trial converted(Draw& d) {
  const Tensor x = d.tensor();
  const Numbers dims = d.numbers(2, -2, 2);
  const ReduceOptions options{d.flag(), d.flag() ? std::optional(d.dtype()) : std::nullopt};
  return {[=] { return list(f(x, dims, options)); },
          gives(reduced(sizes(x), dims, options.keepdim))};
}

template <Tensor (*f)(const Tensor&, const Dims&, const NormOptions&)> Trial p_norm(Draw& d) {
  const Tensor x = d.tensor();
  const Numbers dims = d.numbers(2, -2, 2);
  const NormOptions options{.p = d.real(-3, 3), .keepdim = d.flag()};
  return {[=] { return list(f(x, dims, options)); },
          gives(reduced(sizes(x), dims, options.keepdim))};
}

template <Tensor (*f)(const Tensor&, const Dims&, const VarianceOptions&)> Trial spread(Draw& d) {
  const Tensor x = d.tensor();
  const Numbers dims = d.numbers(2, -2, 2);
  const VarianceOptions options{.correction = d.real(-1, 2), .keepdim = d.flag()};
  return {[=] { return list(f(x, dims, options)); },
          gives(reduced(sizes(x), dims, options.keepdim))};
}

template <Tensor (*f)(const Tensor&, const ArgReduceOptions&)> Trial place(Draw& d) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  const ArgReduceOptions options{d.flag() ? std::optional(dim) : std::nullopt, d.flag()};
  const Numbers dims = options.dim ? Numbers{dim} : Numbers{};
  return {[=] { return list(f(x, options)); }, gives(reduced(sizes(x), dims, options.keepdim))};
}

template <ValuesAndIndices (*f)(const Tensor&, std::int64_t, const KeepDimOptions&)>
Trial extreme(Draw& d) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  const bool keepdim = d.flag();
  return {[=] { return list(f(x, dim, {keepdim})); },
          gives_both(reduced(sizes(x), {dim}, keepdim))};
}

/** Calls an op along a dimension whose results have x's shape. */
template <class F> Trial along(Draw& d, F f) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  return {[=] { return list(f(x, dim)); },
          resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
}

template <ValuesAndIndices (*f)(const Tensor&, std::int64_t)> Trial running(Draw& d) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  return {[=] { return list(f(x, dim)); },
          resolved(dim, x.shape().size()) ? gives_both(sizes(x)) : refused()};
}

const Rows reductions([] {
  add_row("all", kept<mezzo::all>);
  add_row("amax", kept<mezzo::amax>);
  add_row("amin", kept<mezzo::amin>);
  add_row("any", kept<mezzo::any>);
  add_row("argmax", place<mezzo::argmax>);
  add_row("argmin", place<mezzo::argmin>);
  add_row("change_histograms", [](Draw& d) {
    const Tensor before = d.tensor(), after = d.flag() ? d.tensor() : before.clone();
    const auto call = [=] {
      const ChangeHistograms h = change_histograms(before, after);
      return std::vector<Tensor>{h.change.counts, h.change.largest, h.ratio.counts,
                                 h.ratio.largest};
    };
    const bool fits = is_floating(before.dtype()) && is_floating(after.dtype()) &&
                      before.shape() == after.shape();
    return Trial{call, fits ? Expected(std::vector<Sizes>{{280}, {}, {280}, {}}) : refused()};
  });
  add_row("count_nonzero", kept<mezzo::count_nonzero>);
  add_row("exponent_histogram", [](Draw& d) {
    const Tensor x = d.tensor();
    const auto call = [=] {
      const ExponentHistogram h = exponent_histogram(x);
      return std::vector<Tensor>{h.counts, h.largest};
    };
    return Trial{call,
                 is_floating(x.dtype()) ? Expected(std::vector<Sizes>{{280}, {}}) : refused()};
  });
  add_row("logsumexp", kept<mezzo::logsumexp>);
  add_row("max", extreme<mezzo::max>);
  add_row("mean", converted<mezzo::mean>);
  add_row("min", extreme<mezzo::min>);
  add_row("norm", p_norm<mezzo::norm>);
  add_row("prod", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const bool whole = d.flag();
    return Trial{[=] { return list(whole ? prod(x) : prod(x, dim)); },
                 whole ? gives(Sizes{}) : gives(reduced(sizes(x), {dim}, false))};
  });
  add_row("std", spread<mezzo::std>);
  add_row("sum", converted<mezzo::sum>);
  add_row("var", spread<mezzo::var>);
  add_row("vector_norm", p_norm<mezzo::vector_norm>);
  add_row("cummax", running<mezzo::cummax>);
  add_row("cummin", running<mezzo::cummin>);
  add_row("cumprod", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return cumprod(x, dim); });
  });
  add_row("cumprod", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return cumprod_(x.detach(), dim); });
  });
  add_row("cumsum", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return cumsum(x, dim); });
  });
  add_row("cumsum", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return cumsum_(x.detach(), dim); });
  });
  add_row("log_softmax", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return log_softmax(x, dim); });
  });
  add_row("softmax", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return softmax(x, dim); });
  });
  add_row("softmin", [](Draw& d) {
    return along(d, [](const Tensor& x, std::int64_t dim) { return softmin(x, dim); });
  });
  add_row("glu", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const auto at = resolved(dim, x.shape().size());
    const bool fits = x.dim() > 0 && at && sizes(x)[*at] % 2 == 0;
    return Trial{[=] { return list(glu(x, {dim})); },
                 fits ? gives(resized(sizes(x), dim, sizes(x)[*at] / 2)) : refused()};
  });
});

const Rows distances([] {
  add_row("cdist", [](Draw& d) {
    const Tensor a = d.floats(1, 4);
    Shape other = d.like(a.shape());
    if (other.rank() >= 2 && a.numel() > 0 && d.flag()) other[other.rank() - 2] = 1 + d.below(30);
    const Tensor b = d.tensor(other, a.dtype());
    const CdistOptions options{d.real(-0.5, 3),
                               d.flag() ? CdistMode::use_mm : CdistMode::use_mm_if_large};
    Expected expected = refused();
    if (a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1)) {
      Sizes left = sizes(a), right = sizes(b);
      const Wide rows = left[left.size() - 2], columns = right[right.size() - 2];
      left.resize(left.size() - 2);
      right.resize(right.size() - 2);
      if (auto shape = broadcast(left, right)) {
        shape->push_back(rows);
        shape->push_back(columns);
        expected = gives(shape);
      }
    }
    return Trial{[=] { return list(cdist(a, b, options)); }, expected};
  });
  add_row("pdist", [](Draw& d) {
    const Tensor x = d.floats(1, 3);
    const double p = d.real(-0.5, 3);
    const Wide n = x.dim() == 2 ? x.shape()[0] : 0;
    return Trial{[=] { return list(pdist(x, {p})); },
                 x.dim() == 2 ? gives({n * (n - 1) / 2}) : refused()};
  });
  add_row("cosine_similarity", [](Draw& d) {
    const Tensor a = d.floats(0, 4), b = d.floats(d.like(a.shape()));
    const std::int64_t dim = d.number(-2, 2);
    const double eps = d.real(0, 1);
    const auto both = broadcast(sizes(a), sizes(b));
    return Trial{[=] {
                   return list(cosine_similarity(a, b, {dim, eps}));
                 },
                 both ? gives(reduced(*both, {dim}, false)) : refused()};
  });
  add_row("dist", [](Draw& d) {
    const Tensor a = d.floats(0, 4), b = d.floats(d.like(a.shape()));
    const double p = d.real(-1, 3);
    return Trial{[=] { return list(dist(a, b, {p})); },
                 broadcast(sizes(a), sizes(b)) ? gives(Sizes{}) : refused()};
  });
  add_row("matrix_norm", [](Draw& d) {
    const Tensor x = d.floats(1, 4);
    MatrixNormOptions options{.keepdim = d.flag()};
    options.dim = {d.dim(x.dim()), d.dim(x.dim())};
    const double order = d.flag() ? 1 : d.real();
    const bool frobenius = d.flag();
    return Trial{
        [=] {
          return list(matrix_norm(x, frobenius ? MatrixOrder("fro") : MatrixOrder(order), options));
        },
        x.dim() < 2 ? refused()
                    : gives(reduced(sizes(x), {options.dim[0], options.dim[1]}, options.keepdim))};
  });
  add_row("normalize", [](Draw& d) {
    const Tensor x = d.floats(0, 4);
    const std::int64_t dim = d.dim(x.dim());
    const double p = d.real(-1, 3), eps = d.real(0, 1);
    return Trial{[=] {
                   return list(normalize(x, {p, dim, eps}));
                 },
                 resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
  add_row("pairwise_distance", [](Draw& d) {
    const Tensor a = d.floats(0, 4), b = d.floats(d.like(a.shape()));
    const PairwiseDistanceOptions options{d.real(-1, 3), d.real(0, 1), d.flag()};
    const auto both = broadcast(sizes(a), sizes(b));
    return Trial{[=] { return list(pairwise_distance(a, b, options)); },
                 both && !both->empty() ? gives(reduced(*both, {-1}, options.keepdim)) : refused()};
  });
  add_row("renorm", [](Draw& d) {
    const Tensor x = d.floats(0, 4);
    const std::int64_t dim = d.dim(x.dim());
    const double p = d.real(-0.5, 3), most = d.real(-0.5, 3);
    const bool in_place = d.flag();
    return Trial{
        [=] {
          return list(in_place ? renorm_(x.detach(), p, dim, most) : renorm(x, p, dim, most));
        },
        resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
});

// ---- normalisation ------------------------------------------------------------------------------

Shape channels_of(const Tensor& x) { return {x.dim() >= 2 ? x.shape()[1] : 1}; }

/** Draws options of batch_norm and batch_norm_relu. */
BatchNormOptions batch_options(Draw& d, const Tensor& x) {
  BatchNormOptions options;
  const Shape channels = channels_of(x);
  options.training = d.flag();
  for (Tensor* running : {&options.running_mean, &options.running_var})
    *running = options.training ? d.optional(channels, DType::f32) : d.tensor(channels, DType::f32);
  for (Tensor* running : {&options.running_mean, &options.running_var})
    if (running->defined()) *running = running->detach();
  options.weight = d.optional(channels, DType::f32);
  options.bias = d.optional(channels, DType::f32);
  options.momentum = d.real(0, 1);
  options.eps = d.real(0, 1);
  if (d.flag()) options.num_batches_tracked = zeros(Shape{}, {.dtype = i64, .device = x.device()});
  return options;
}

const Rows norms([] {
  add_row("batch_norm", [](Draw& d) {
    const Tensor x = d.floats(1, 5);
    const BatchNormOptions options = batch_options(d, x);
    return Trial{[=] { return list(batch_norm(x, options)); },
                 x.dim() >= 2 ? gives(sizes(x)) : refused()};
  });
  add_row("batch_norm_relu", [](Draw& d) {
    const Tensor x = d.floats(1, 5);
    const BatchNormOptions options = batch_options(d, x);
    const Tensor residual = d.optional(x.shape(), x.dtype());
    return Trial{[=] { return list(batch_norm_relu(x, options, residual)); },
                 x.dim() >= 2 ? gives(sizes(x)) : refused()};
  });
  add_row("group_norm", [](Draw& d) {
    const Tensor x = d.floats(1, 5);
    const std::int64_t groups = d.number(0, 3);
    const GroupNormOptions options{d.optional(channels_of(x), x.dtype()),
                                   d.optional(channels_of(x), x.dtype()), d.real(0, 1)};
    const bool fits = x.dim() >= 2 && groups >= 1 && x.shape()[1] % groups == 0;
    return Trial{[=] { return list(group_norm(x, groups, options)); },
                 fits ? gives(sizes(x)) : refused()};
  });
  add_row("instance_norm", [](Draw& d) {
    const Tensor x = d.floats(1, 5);
    const BatchNormOptions o = batch_options(d, x);
    const InstanceNormOptions options{o.running_mean, o.running_var, o.weight, o.bias,
                                      o.training,     o.momentum,    o.eps};
    return Trial{[=] { return list(instance_norm(x, options)); },
                 x.dim() >= 2 ? gives(sizes(x)) : refused()};
  });
  add_row("layer_norm", [](Draw& d) {
    const Tensor x = d.floats(0, 4);
    Shape tail;
    for (std::int64_t i = d.below(x.dim() + 1); i < x.dim(); ++i) tail.push_back(x.shape()[i]);
    if (d.chance(0.1)) tail = d.shape();
    const LayerNormOptions options{d.optional(tail, x.dtype()), d.optional(tail, x.dtype()),
                                   d.real(0, 1)};
    return Trial{[=] { return list(layer_norm(x, tail, options)); }, gives(sizes(x))};
  });
  add_row("rms_norm", [](Draw& d) {
    const Tensor x = d.floats(0, 4);
    Shape tail;
    for (std::int64_t i = d.below(x.dim() + 1); i < x.dim(); ++i) tail.push_back(x.shape()[i]);
    if (d.chance(0.1)) tail = d.shape();
    const RmsNormOptions options{d.optional(tail, x.dtype()), d.real(0, 1)};
    return Trial{[=] { return list(rms_norm(x, tail, options)); }, gives(sizes(x))};
  });
  add_row("local_response_norm", [](Draw& d) {
    const Tensor x = d.floats(2, 5);
    const std::int64_t size = d.number(0, 5);
    const LocalResponseNormOptions options{d.real(0, 1), d.real(0, 1), d.real(0, 2)};
    return Trial{[=] { return list(local_response_norm(x, size, options)); },
                 x.dim() >= 3 && size >= 1 ? gives(sizes(x)) : refused()};
  });
});

}  // namespace
