// Rows of the losses and of the functions that create tensors.
#include <cmath>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

Reduction reduction(Draw& d) {
  constexpr Reduction kAll[] = {Reduction::none, Reduction::mean, Reduction::sum,
                                Reduction::batchmean};
  return kAll[d.below(d.chance(0.1) ? 4 : 3)];
}

/** Returns the shape of unreduced terms or of one number. */
Expected terms(const std::optional<Sizes>& shape, Reduction reduction) {
  return !shape ? refused() : reduction == Reduction::none ? gives(*shape) : gives(Sizes{});
}

/** Draws two operands that usually broadcast; the options have a reduction and maybe a number. */
template <class F> Trial two_operands(Draw& d, F f) {
  const Tensor x = d.floats(0, 4), y = d.tensor(d.like(x.shape()), x.dtype());
  const Reduction how = reduction(d);
  const double r = d.real(0, 2);
  return {[=] { return list(f(x, y, how, r)); }, terms(broadcast(sizes(x), sizes(y)), how)};
}

#define LOSS(name, ...)                                                                        \
  add_row(#name, [](Draw& d) {                                                                 \
    return two_operands(d, [](const Tensor& x, const Tensor& y, Reduction how,                 \
                              [[maybe_unused]] double r) { return name(x, y, __VA_ARGS__); }); \
  })

/** Class scores and targets: (C), (N,C) or (N,C,...). */
struct Classified {
  Tensor x, target, weight;
  std::int64_t ignore_index;
  Reduction how;
  double smoothing;
};

Classified classified(Draw& d, int max_rank) {
  Classified c;
  c.x = d.floats(1, max_rank);
  const int at = c.x.dim() == 1 ? 0 : 1;
  Shape places = c.x.shape();
  places.erase(at);
  c.target = d.index(d.chance(0.05) ? d.shape() : places, c.x.shape()[at]);
  c.weight = d.optional({c.x.shape()[at]}, c.x.dtype());
  c.ignore_index = d.number(-3, 3);
  c.how = reduction(d);
  c.smoothing = d.flag() ? 0 : d.real(0, 1);
  return c;
}

const Rows losses([] {
  LOSS(binary_cross_entropy, {.reduction = how});
  LOSS(binary_cross_entropy_with_logits, {.reduction = how});
  LOSS(hinge_embedding_loss, {.margin = r, .reduction = how});
  LOSS(huber_loss, {.reduction = how, .delta = r});
  LOSS(l1_loss, {.reduction = how});
  LOSS(mse_loss, {.reduction = how});
  LOSS(poisson_nll_loss, {.log_input = r < 1, .full = r < 0.5, .eps = r, .reduction = how});
  LOSS(smooth_l1_loss, {.reduction = how, .beta = r});
  LOSS(soft_margin_loss, {.reduction = how});
  LOSS(kl_div, {.reduction = how, .log_target = r < 1});
  add_row("multilabel_soft_margin_loss", [](Draw& d) {
    const Tensor x = d.floats(0, 3), y = d.tensor(d.like(x.shape()), x.dtype());
    const Reduction how = reduction(d);
    const auto whole = broadcast(sizes(x), sizes(y));
    return Trial{[=] { return list(multilabel_soft_margin_loss(x, y, {.reduction = how})); },
                 whole && how == Reduction::none && !whole->empty()
                     ? gives(reduced(*whole, {-1}, false))
                     : terms(whole, how)};
  });
  add_row("cross_entropy", [](Draw& d) {
    const Classified c = classified(d, 4);
    const CrossEntropyOptions options{c.weight, c.ignore_index, c.how, c.smoothing};
    const bool by_probability = d.chance(0.2);
    const Tensor target = by_probability ? d.tensor(d.like(c.x.shape()), c.x.dtype()) : c.target;
    Sizes places = sizes(c.x);
    places.erase(places.begin() + (c.x.dim() == 1 ? 0 : 1));
    return Trial{[=] { return list(cross_entropy(c.x, target, options)); }, terms(places, c.how)};
  });
  add_row("nll_loss", [](Draw& d) {
    const Classified c = classified(d, 4);
    const NllLossOptions options{c.weight, c.ignore_index, c.how};
    Sizes places = sizes(c.x);
    places.erase(places.begin() + (c.x.dim() == 1 ? 0 : 1));
    return Trial{[=] { return list(nll_loss(c.x, c.target, options)); }, terms(places, c.how)};
  });
  add_row("multi_margin_loss", [](Draw& d) {
    const Classified c = classified(d, 2);
    const MultiMarginLossOptions options{static_cast<int>(1 + d.below(3)), d.real(0, 2), c.weight,
                                         c.how};
    Sizes places = sizes(c.x);
    places.pop_back();
    return Trial{[=] { return list(multi_margin_loss(c.x, c.target, options)); },
                 terms(places, c.how)};
  });
  add_row("multilabel_margin_loss", [](Draw& d) {
    const Tensor x = d.floats(1, 2), target = d.index(d.like(x.shape()), x.size(-1));
    const Reduction how = reduction(d);
    Sizes places = sizes(x);
    places.pop_back();
    return Trial{[=] { return list(multilabel_margin_loss(x, target, {how})); },
                 terms(places, how)};
  });
  add_row("cosine_embedding_loss", [](Draw& d) {
    const Tensor a = d.floats(1, 2), b = d.floats(d.like(a.shape()));
    Shape places = a.shape();
    places.erase(places.rank() - 1);
    const Tensor target = d.tensor(d.like(places), DType::f32);
    const Reduction how = reduction(d);
    const double margin = d.real();
    Sizes each = sizes(a);
    each.pop_back();
    return Trial{[=] {
                   return list(cosine_embedding_loss(a, b, target, {margin, how}));
                 },
                 terms(each, how)};
  });
  add_row("margin_ranking_loss", [](Draw& d) {
    const Tensor a = d.floats(0, 3), b = d.tensor(d.like(a.shape()), a.dtype()),
                 target = d.tensor(d.like(a.shape()), a.dtype());
    const Reduction how = reduction(d);
    const double margin = d.real();
    return Trial{[=] {
                   return list(margin_ranking_loss(a, b, target, {margin, how}));
                 },
                 terms(broadcast(broadcast(sizes(a), sizes(b)), sizes(target)), how)};
  });
  add_row("triplet_margin_loss", [](Draw& d) {
    const Tensor a = d.floats(0, 3), b = d.tensor(d.like(a.shape()), a.dtype()),
                 c = d.tensor(d.like(a.shape()), a.dtype());
    const TripletMarginLossOptions options{d.real(0, 2), d.real(0, 3), d.real(0, 1), d.flag(),
                                           reduction(d)};
    auto shape = broadcast(broadcast(sizes(a), sizes(b)), sizes(c));
    if (shape && !shape->empty()) shape->pop_back();
    return Trial{[=] { return list(triplet_margin_loss(a, b, c, options)); },
                 terms(shape, options.reduction)};
  });
  add_row("ctc_loss", [](Draw& d) {
    const std::int64_t steps = 1 + d.below(5), samples = 1 + d.below(3), classes = 2 + d.below(3),
                       labels = d.below(4);
    const Tensor x = d.floats(d.chance(0.05) ? d.shape() : Shape{steps, samples, classes});
    const Tensor targets = d.index({samples, labels}, classes - 1) + 1;
    std::vector<std::int64_t> lengths, label_counts;
    for (std::int64_t i = 0; i < samples; ++i) {
      lengths.push_back(d.number(1, steps));
      label_counts.push_back(d.number(0, labels));
    }
    const CtcLossOptions options{d.chance(0.9) ? 0 : d.number(0, 2), reduction(d), d.flag()};
    return Trial{[=] { return list(ctc_loss(x, targets, lengths, label_counts, options)); },
                 x.dim() == 3 ? terms(Sizes{x.shape()[1]}, options.reduction) : refused()};
  });
});

// ---- tensors from numbers -----------------------------------------------------------------------

Shape raw_shape(Draw& d) {
  Shape shape;
  for (const std::int64_t size : d.numbers(4, 0, 5)) shape.push_back(size);
  return shape;
}

template <class F> Trial filled(Draw& d, F make) {
  const Shape shape = raw_shape(d);
  const TensorOptions options{.dtype = d.dtype()};
  bool fits = true;
  for (const std::int64_t size : shape) fits = fits && size >= 0;
  return {[=] { return list(make(shape, options)); }, fits ? gives(sizes(shape)) : refused()};
}

/** Returns the number of elements from start to end by step; exact where all three are small
 *  integers. */
Expected counted(double start, double end, double step) {
  const double places = (end - start) / step;
  if (!(places > -1) || !(places < 0x1p63)) return refused();
  for (const double number : {start, end, step})
    if (number != std::floor(number) || std::abs(number) > 0x1p50) return gives(Sizes{kAny});
  const Wide way = static_cast<Wide>(end) - static_cast<Wide>(start), by = static_cast<Wide>(step);
  return gives(Sizes{(way + (by > 0 ? by - 1 : by + 1)) / by});
}

const Rows creation([] {
  add_row("zeros()", [](Draw& d) {
    return filled(d, [](const Shape& s, const TensorOptions& o) { return zeros(s, o); });
  });
  add_row("empty()", [](Draw& d) {
    return filled(d, [](const Shape& s, const TensorOptions& o) { return empty(s, o); });
  });
  add_row("full()", [](Draw& d) {
    return filled(d, [value = d.real()](const Shape& s, const TensorOptions& o) {
      return full(s, value, o);
    });
  });
  add_row("rand()", [](Draw& d) {
    return filled(d, [](const Shape& s, const TensorOptions& o) { return rand(s, o); });
  });
  add_row("randn()", [](Draw& d) {
    return filled(d, [](const Shape& s, const TensorOptions& o) { return randn(s, o); });
  });
  add_row("randint()", [](Draw& d) {
    return filled(d, [high = d.number(-1, 9)](const Shape& s, const TensorOptions& o) {
      return randint(-2, high, s, o);
    });
  });
  add_row("arange()", [](Draw& d) {
    const bool whole = d.flag();
    double start = d.real(-3, 3), end = d.real(-3, 9), step = d.real(-2, 2);
    if (whole) start = std::round(start), end = std::round(end), step = std::round(step);
    const TensorOptions options{.dtype = d.dtype()};
    return Trial{[=] { return list(arange(start, end, step, options)); },
                 step == 0 ? refused() : counted(start, end, step)};
  });
  add_row("linspace()", [](Draw& d) {
    const double start = d.real(), end = d.real();
    const std::int64_t steps = d.number(-1, 9);
    const TensorOptions options{.dtype = d.dtype()};
    return Trial{[=] { return list(linspace(start, end, steps, options)); },
                 steps >= 0 ? gives({steps}) : refused()};
  });
  add_row("eye()", [](Draw& d) {
    const std::int64_t n = d.number(-1, 5), m = d.number(-1, 5);
    const TensorOptions options{.dtype = d.dtype()};
    return Trial{[=] { return list(eye(n, m, options)); },
                 n >= 0 && m >= 0 ? gives({n, m}) : refused()};
  });
  add_row("randperm()", [](Draw& d) {
    const std::int64_t n = d.number(-1, 20);
    return Trial{[=] { return list(randperm(n)); }, n >= 0 ? gives({n}) : refused()};
  });
});

}  // namespace
