// The elementwise formulas of the losses; the public losses reduce their results. Parsed by g++ and
// by nvcc.
// See also: tensor/ops/loss/loss.h, tensor/ops/loss/margin_loss.h (the public ops).
//
// Operands: x (scores or predictions), t (target). All are floating; the losses reject integers.
#pragma once

#include "formula.h"

namespace mezzo::op {

namespace detail {

constexpr OpTraits loss_term(std::string_view name, Needs x, Needs t) {
  return {
      .name = name, .precision = Precision::f32, .inputs = 2, .needs = {x, t}, .internal = true};
}
inline constexpr Needs kBoth = input(0) | input(1);

/** Returns g for operand 0, and -g for operand 1, which is subtracted. */
template <int I, class V> MZ_HD V towards(const V& g) {
  if constexpr (I == 0)
    return g;
  else
    return -g;
}

/** Returns min(x, 0) - log1p(exp(-|x|)), the logarithm of sigmoid(x). */
template <class V> MZ_HD MZ_ALWAYS_INLINE V log_sigmoid(const V& x) {
  return select(x > 0, num<V>(0), x) - log1p(exp(select(x > 0, -x, x)));
}

/** Returns whether x is plus or minus infinity. */
template <class V> MZ_HD MZ_ALWAYS_INLINE auto is_infinite(const V& x) {
  return (x == INFINITY) | (x == -INFINITY);
}

/** Returns weight * x; 0 where the weight is 0 and x is infinite. */
template <class V> MZ_HD MZ_ALWAYS_INLINE V weighted(const V& weight, const V& x) {
  return weight * select((weight == 0) & is_infinite(x), num<V>(0), x);
}

/** Returns the cross entropy of an infinite x, whose logarithms of sigmoid(x) and sigmoid(-x) have
 *  the weights `positive` and `negative`. One of these logarithms is 0, the other -inf. */
template <class V>
MZ_HD MZ_ALWAYS_INLINE V infinite_score(const V& x, const V& positive, const V& negative) {
  const V weight = select(x > 0, negative, positive);
  return select(weight == 0, num<V>(0), V(weight * INFINITY));
}

/** Returns max(log(x), -100), which is -100 at 0. It and its derivative are finite for x >= 0. */
template <class V> MZ_HD MZ_ALWAYS_INLINE V clamped_log(const V& x) {
  const V y = log(select(x <= 0, num<V>(1), x));
  return select(x <= 0, num<V>(-100), select(y < -100, num<V>(-100), y));
}

/** Returns max(log(1 - x), -100). */
template <class V> MZ_HD MZ_ALWAYS_INLINE V clamped_log_rest(const V& x) {
  const V y = log1p(-select(x >= 1, num<V>(0), x));
  return select(x >= 1, num<V>(-100), select(y < -100, num<V>(-100), y));
}

}  // namespace detail

/** (x - t)^2. */
struct SquaredError {
  static constexpr OpTraits traits =
      detail::loss_term("squared_error", detail::kBoth, detail::kBoth);
  template <class V> MZ_HD static V forward(const V& x, const V& t) { return (x - t) * (x - t); }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    return detail::towards<I>(g) * (2 * (x - t));
  }
};

/** |x - t|. */
struct AbsoluteError {
  static constexpr OpTraits traits =
      detail::loss_term("absolute_error", detail::kBoth, detail::kBoth);
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return select(x < t, V(t - x), V(x - t));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    const V up = detail::towards<I>(g);
    return select(x > t, up, select(x < t, V(-up), num<V>(0)));
  }
};

/** a^2 / (2 beta) for a = |x - t| < beta, else a - beta / 2; beta > 0. */
struct SmoothAbsoluteError {
  static constexpr OpTraits traits =
      detail::loss_term("smooth_absolute_error", detail::kBoth, detail::kBoth);
  struct Attrs {
    double beta = 1;
  };
  template <class V> MZ_HD static V forward(const V& x, const V& t, const Attrs& attrs) {
    const V beta = num<V>(attrs.beta), a = select(x < t, V(t - x), V(x - t));
    return select(a < beta, V(a * a / (2 * beta)), V(a - beta / 2));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x, const V& t, const Attrs& attrs) {
    const auto beta = num<V>(attrs.beta);
    const V up = detail::towards<I>(g), d = x - t;
    const V inner = select((d >= beta) | (d <= -beta), num<V>(0), d);
    return select(d >= beta, up, select(d <= -beta, V(-up), V(up * inner / beta)));
  }
};

/** a^2 / 2 for a = |x - t| <= delta, else delta (a - delta / 2); delta > 0. */
struct HuberError {
  static constexpr OpTraits traits = detail::loss_term("huber_error", detail::kBoth, detail::kBoth);
  struct Attrs {
    double delta = 1;
  };
  template <class V> MZ_HD static V forward(const V& x, const V& t, const Attrs& attrs) {
    const V delta = num<V>(attrs.delta), a = select(x < t, V(t - x), V(x - t));
    return select(a > delta, V(delta * (a - delta / 2)), V(a * a / 2));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x, const V& t, const Attrs& attrs) {
    const auto delta = num<V>(attrs.delta);
    const V up = detail::towards<I>(g), d = x - t;
    const V inner = select((d > delta) | (d < -delta), num<V>(0), d);
    return select(d > delta, V(up * delta), select(d < -delta, V(up * -delta), V(up * inner)));
  }
};

/** t (ln t - x), exactly 0 where t is 0, nan where t is negative; x holds logarithms. */
struct KlTerm {
  static constexpr OpTraits traits = detail::loss_term("kl_term", input(1), detail::kBoth);
  template <class V> MZ_HD static V excess(const V& x, const V& t) {
    return log(select(t == 0, num<V>(1), t)) - x;
  }
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return select(t == 0, num<V>(0), V(t * excess(x, t)));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    if constexpr (I == 0)
      return select(t == 0, num<V>(0), V(-g * t));
    else
      return select(t == 0, num<V>(0), V(g * (excess(x, t) + 1)));
  }
};

/** e^t (t - x), exactly 0 where t is -inf: KlTerm with a target of logarithms. */
struct KlLogTerm {
  static constexpr OpTraits traits = detail::loss_term("kl_log_term", input(1), detail::kBoth);
  /** Returns t - x; 0 where e^t is 0. */
  template <class V> MZ_HD static V excess(const V& x, const V& t) {
    const auto impossible = t == -INFINITY;
    return select(impossible, num<V>(0), V(t - select(impossible, num<V>(0), x)));
  }
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return detail::weighted(V(exp(t)), excess(x, t));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    if constexpr (I == 0)
      return -g * exp(t);
    else
      return detail::weighted(V(g * exp(t)), V(excess(x, t) + 1));
  }
};

/** (1 - t) x - ln sigmoid(x), which is -(t ln sigmoid(x) + (1 - t) ln sigmoid(-x)). An infinite x
 *  gives 0 where the weight of its logarithm, t or 1 - t, is 0. Unlike PyTorch, which gives nan. */
struct LogitCrossEntropy {
  static constexpr OpTraits traits =
      detail::loss_term("logit_cross_entropy", detail::kBoth, input(0));
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return select(detail::is_infinite(x), detail::infinite_score(x, t, V(1 - t)),
                  V((1 - t) * x - detail::log_sigmoid(x)));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    if constexpr (I == 0)
      return g * (sigmoid(x) - t);
    else
      return detail::weighted(V(-g), x);
  }
};

/** (1 - t) x - (1 + (w - 1) t) ln sigmoid(x); operand 2 is w, the weight of positive targets.
 *  Infinite x as in LogitCrossEntropy. */
struct WeightedLogitCrossEntropy {
  static constexpr OpTraits traits{
      .name = "weighted_logit_cross_entropy",
      .precision = Precision::f32,
      .inputs = 3,
      .needs = {input(0) | input(1) | input(2), input(0) | input(2), detail::kBoth},
      .internal = true};
  template <class V> MZ_HD static V forward(const V& x, const V& t, const V& w) {
    return select(detail::is_infinite(x), detail::infinite_score(x, V(w * t), V(1 - t)),
                  V((1 - t) * x - (1 + (w - 1) * t) * detail::log_sigmoid(x)));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x, const V& t, const V& w) {
    if constexpr (I == 0)
      return g * ((w * t + 1 - t) * sigmoid(x) - w * t);
    else if constexpr (I == 1)
      return detail::weighted(V(-g), V(select(x == -INFINITY, detail::weighted(w, x),
                                              V(x + (w - 1) * detail::log_sigmoid(x)))));
    else
      return detail::weighted(V(-g * t), detail::log_sigmoid(x));
  }
};

/** -(t ln x + (1 - t) ln(1 - x)), each logarithm at least -100. */
struct ProbabilityCrossEntropy {
  static constexpr OpTraits traits =
      detail::loss_term("probability_cross_entropy", detail::kBoth, input(0));
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return -(t * detail::clamped_log(x) + (1 - t) * detail::clamped_log_rest(x));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    if constexpr (I == 0) {
      const V spread = x * (1 - x);
      return g * (x - t) / select(spread < num<V>(1e-12), num<V>(1e-12), spread);
    } else {
      return g * (detail::clamped_log_rest(x) - detail::clamped_log(x));
    }
  }
};

/** e^x - t x: x holds the logarithm of the rate. It is inf at x = inf, and at x = -inf 0 for t = 0.
 */
struct PoissonLogTerm {
  static constexpr OpTraits traits = detail::loss_term("poisson_log_term", detail::kBoth, input(0));
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return select(x == INFINITY, x, V(exp(x) - detail::weighted(t, x)));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    if constexpr (I == 0)
      return g * (exp(x) - t);
    else
      return detail::weighted(V(-g), x);
  }
};

/** x - t ln(x + eps): x holds the rate. It is inf at x = inf, and x for t = 0. */
struct PoissonTerm {
  static constexpr OpTraits traits = detail::loss_term("poisson_term", detail::kBoth, input(0));
  struct Attrs {
    double eps = 1e-8;
  };
  template <class V> MZ_HD static V forward(const V& x, const V& t, const Attrs& attrs) {
    return select(x == INFINITY, x, V(x - detail::weighted(t, V(log(x + num<V>(attrs.eps))))));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x, const V& t, const Attrs& attrs) {
    if constexpr (I == 0) {
      const V rate = x + num<V>(attrs.eps);
      return g * (1 - t / select((t == 0) & (rate == 0), num<V>(1), rate));
    } else {
      return detail::weighted(V(-g), V(log(x + num<V>(attrs.eps))));
    }
  }
};

/** t ln t - t + ln(2 pi t) / 2 where t > 1, else 0: Stirling's approximation of ln t!. */
struct StirlingTerm {
  static constexpr OpTraits traits{
      .name = "stirling_term", .precision = Precision::f32, .needs = {input(0)}, .internal = true};
  template <class V> MZ_HD static V forward(const V& t) {
    const V l = log(select(t <= 1, num<V>(1), t));
    // 0.9189... is ln(2 pi) / 2.
    return select(t <= 1, num<V>(0), V(t * l - t + l / 2 + num<V>(0.91893853320467274178)));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& t, const V&) {
    const V safe = select(t <= 1, num<V>(1), t);
    return select(t <= 1, num<V>(0), V(g * (log(safe) + num<V>(0.5) / safe)));
  }
};

/** x where t is not -1, plus max(0, margin - x) where t is not 1. */
struct HingeEmbeddingTerm {
  static constexpr OpTraits traits =
      detail::loss_term("hinge_embedding_term", detail::kBoth, kNothing);
  struct Attrs {
    double margin = 1;
  };
  template <class V> MZ_HD static V forward(const V& x, const V& t, const Attrs& attrs) {
    const V rest = num<V>(attrs.margin) - x;
    return select(t == -1, num<V>(0), x) +
           select(t == 1, num<V>(0), select(rest <= 0, num<V>(0), rest));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x, const V& t, const Attrs& attrs) {
    if constexpr (I == 0)
      return select(t == -1, num<V>(0), g) -
             select(t == 1, num<V>(0), select(x >= num<V>(attrs.margin), num<V>(0), g));
    else
      return zeros_like(g);
  }
};

/** max(0, margin - t (x1 - x2)); operands x1, x2, t. */
struct MarginRankingTerm {
  static constexpr OpTraits traits{
      .name = "margin_ranking_term",
      .precision = Precision::f32,
      .inputs = 3,
      .needs = {input(0) | input(1) | input(2), input(0) | input(1) | input(2),
                input(0) | input(1) | input(2)},
      .internal = true};
  struct Attrs {
    double margin = 0;
  };
  template <class V>
  MZ_HD static V forward(const V& x1, const V& x2, const V& t, const Attrs& attrs) {
    const V z = num<V>(attrs.margin) - detail::weighted(t, V(x1 - x2));
    return select(z <= 0, num<V>(0), z);
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& x1, const V& x2, const V& t, const Attrs& attrs) {
    const V d = x1 - x2, z = num<V>(attrs.margin) - detail::weighted(t, d);
    const V active = select(z <= 0, num<V>(0), g);
    if constexpr (I == 0)
      return -active * t;
    else if constexpr (I == 1)
      return active * t;
    else
      return detail::weighted(V(-active), d);
  }
};

/** ln(1 + e^(-t x)). */
struct SoftMarginTerm {
  static constexpr OpTraits traits =
      detail::loss_term("soft_margin_term", detail::kBoth, detail::kBoth);
  template <class V> MZ_HD static V forward(const V& x, const V& t) {
    return -detail::log_sigmoid(detail::weighted(t, x));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& t) {
    const V pull = g * sigmoid(detail::weighted(V(-t), x));
    if constexpr (I == 0)
      return -pull * t;
    else
      return detail::weighted(V(-pull), x);
  }
};

/** Operand 0, the term of a loss, times its weight; 0 where the weight is 0 and the term infinite.
 */
struct WeightedTerm {
  static constexpr OpTraits traits = detail::loss_term("weighted_term", input(1), input(0));
  template <class V> MZ_HD static V forward(const V& term, const V& weight) {
    return detail::weighted(weight, term);
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& term, const V& weight) {
    return detail::weighted(g, I == 0 ? weight : term);
  }
};

using LossTermOps = type_list<AbsoluteError, HingeEmbeddingTerm, HuberError, KlLogTerm, KlTerm,
                              LogitCrossEntropy, MarginRankingTerm, PoissonLogTerm, PoissonTerm,
                              ProbabilityCrossEntropy, SmoothAbsoluteError, SoftMarginTerm,
                              SquaredError, StirlingTerm, WeightedLogitCrossEntropy, WeightedTerm>;

}  // namespace mezzo::op
