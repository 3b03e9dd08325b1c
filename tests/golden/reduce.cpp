// Golden calls: reductions, scans, softmax, norms of vectors and matrices, distances, sorting.
#include "golden.h"

#include <limits>

namespace {

using namespace golden;
using namespace mezzo;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

#define GOLDEN_SUM(op)                       \
  GOLDEN(#op, op(x[0]));                     \
  GOLDEN(#op "/0-dim", op(x[0]));            \
  GOLDEN(#op "/one dimension", op(x[0], 1)); \
  GOLDEN(#op "/two dimensions", op(x[0], {0, 2}, {.keepdim = true}))
#define GOLDEN_VARIANCE(op, name)             \
  GOLDEN(name, op(x[0]));                     \
  GOLDEN(name "/one dimension", op(x[0], 1)); \
  GOLDEN(name "/biased, keepdim", op(x[0], {0, 1}, {.correction = 0, .keepdim = true}))
#define GOLDEN_EXTREME(all, one, arg)                       \
  GOLDEN(#all, all(x[0], {0, 1}));                          \
  GOLDEN(#all "/keepdim", all(x[0], 1, {.keepdim = true})); \
  GOLDEN(#all "/ties", all(x[0], 0));                       \
  GOLDEN(#one, one(x[0]));                                  \
  GOLDEN(#one "/one dimension", one(x[0], 1));              \
  GOLDEN(#one "/nan", one(x[0], 0));                        \
  GOLDEN(#arg, arg(x[0]));                                  \
  GOLDEN(#arg "/one dimension", arg(x[0], {.dim = 1, .keepdim = true}))

void add_reductions() {
  GOLDEN_SUM(sum);
  GOLDEN_SUM(mean);
  GOLDEN("sum/integers", sum(x[0]));
  GOLDEN("sum/bool", sum(x[0]));
  GOLDEN("prod", prod(x[0]));
  GOLDEN("prod/one dimension", prod(x[0], 1));
  GOLDEN("prod/one zero", prod(x[0]));
  GOLDEN("prod/two zeros", prod(x[0]));
  GOLDEN("prod/integers", prod(x[0]));
  GOLDEN_VARIANCE(var, "var");
  GOLDEN_VARIANCE(mezzo::std, "std");  // `std` alone could be the namespace
  GOLDEN_EXTREME(amax, max, argmax);
  GOLDEN_EXTREME(amin, min, argmin);
  GOLDEN("all", all(x[0]));
  GOLDEN("all/one dimension", all(x[0], 1));
  GOLDEN("any", any(x[0]));
  GOLDEN("any/one dimension", any(x[0], 1));
  GOLDEN("count_nonzero", count_nonzero(x[0]));
  GOLDEN("count_nonzero/one dimension", count_nonzero(x[0], 0));
  GOLDEN("cumsum", cumsum(x[0], 1));
  GOLDEN("cumsum/first dimension", cumsum(x[0], 0));
  GOLDEN("cumsum/integers", cumsum(x[0], 0));
  GOLDEN("cumprod", cumprod(x[0], 1));
  GOLDEN("cumprod/zeros", cumprod(x[0], 1));
}

#define GOLDEN_SOFTMAX(op)                     \
  GOLDEN(#op, op(x[0], 1));                    \
  GOLDEN(#op "/first dimension", op(x[0], 0)); \
  GOLDEN(#op "/large", op(x[0], 0))

void add_softmax() {
  GOLDEN_SOFTMAX(softmax);
  GOLDEN_SOFTMAX(log_softmax);
  GOLDEN_SOFTMAX(softmin);
  GOLDEN("logsumexp", logsumexp(x[0], 1));
  GOLDEN("logsumexp/two dimensions", logsumexp(x[0], {0, 2}, {.keepdim = true}));
  GOLDEN("logsumexp/infinities", logsumexp(x[0], 1));
}

void add_norms() {
  GOLDEN("vector_norm", vector_norm(x[0]));
  GOLDEN("vector_norm/p 0", vector_norm(x[0], 1, {.p = 0}));
  GOLDEN("vector_norm/p 0.5", vector_norm(x[0], 1, {.p = 0.5}));
  GOLDEN("vector_norm/p 1", vector_norm(x[0], 1, {.p = 1}));
  GOLDEN("vector_norm/p 2", vector_norm(x[0], 1, {.p = 2}));
  GOLDEN("vector_norm/p 3.5", vector_norm(x[0], 1, {.p = 3.5}));
  GOLDEN("vector_norm/p inf", vector_norm(x[0], 1, {.p = kInfinity}));
  GOLDEN("vector_norm/p -inf", vector_norm(x[0], 1, {.p = -kInfinity}));
  GOLDEN("vector_norm/of zeros", vector_norm(x[0], 1));
  GOLDEN("norm", norm(x[0]));
  GOLDEN("norm/p 3", norm(x[0], 1, {.p = 3, .keepdim = true}));
  GOLDEN("matrix_norm/fro", matrix_norm(x[0]));
  GOLDEN("matrix_norm/1", matrix_norm(x[0], 1));
  GOLDEN("matrix_norm/-1", matrix_norm(x[0], -1));
  GOLDEN("matrix_norm/inf", matrix_norm(x[0], kInfinity));
  GOLDEN("matrix_norm/-inf", matrix_norm(x[0], -kInfinity));
  GOLDEN("normalize", normalize(x[0]));
  GOLDEN("normalize/p 1", normalize(x[0], {.p = 1, .dim = 0}));
  GOLDEN("normalize/small", normalize(x[0], {.eps = 10}));
}

#define GOLDEN_PAIRS(p_name, value)                           \
  GOLDEN("cdist/p " p_name, cdist(x[0], x[1], {.p = value})); \
  GOLDEN("pdist/p " p_name, pdist(x[0], {.p = value}))

void add_distances() {
  GOLDEN("dist", dist(x[0], x[1]));
  GOLDEN("dist/p 1", dist(x[0], x[1], {.p = 1}));
  GOLDEN("pairwise_distance", pairwise_distance(x[0], x[1]));
  GOLDEN("pairwise_distance/p 1", pairwise_distance(x[0], x[1], {.p = 1, .keepdim = true}));
  GOLDEN("cosine_similarity", cosine_similarity(x[0], x[1]));
  GOLDEN("cosine_similarity/first dimension",
         cosine_similarity(x[0], x[1], {.dim = 0, .eps = 1e-3}));
  GOLDEN_PAIRS("0", 0);
  GOLDEN_PAIRS("1", 1);
  GOLDEN_PAIRS("2", 2);
  GOLDEN_PAIRS("3", 3);
  GOLDEN_PAIRS("inf", kInfinity);
  GOLDEN_WITHIN("cdist/large", 20, cdist(x[0], x[1]));
  GOLDEN("renorm", renorm(x[0], 2, 0, 2));
  GOLDEN("renorm/p 1", renorm(x[0], 1, 1, 3));
}

void add_sorting() {
  GOLDEN("sort", sort(x[0]));
  GOLDEN("sort/descending", sort(x[0], {.dim = 0, .descending = true}));
  GOLDEN("sort/stable", sort(x[0]));
  GOLDEN("argsort", argsort(x[0]));
  GOLDEN("topk", topk(x[0], 2));
  GOLDEN("topk/smallest", topk(x[0], 3, {.dim = 0, .largest = false}));
  GOLDEN("quantile", quantile(x[0], 0.3));
  GOLDEN("quantile/shares", quantile(x[0], x[1], {.dim = 1, .keepdim = true}));
  GOLDEN("quantile/lower",
         quantile(x[0], 0.4, {.dim = 0, .interpolation = QuantileInterpolation::lower}));
  GOLDEN("quantile/higher",
         quantile(x[0], 0.4, {.dim = 0, .interpolation = QuantileInterpolation::higher}));
  GOLDEN("quantile/midpoint",
         quantile(x[0], 0.4, {.dim = 0, .interpolation = QuantileInterpolation::midpoint}));
  GOLDEN("quantile/nearest",
         quantile(x[0], 0.4, {.dim = 0, .interpolation = QuantileInterpolation::nearest}));
  GOLDEN("kthvalue", kthvalue(x[0], 2));
  GOLDEN("kthvalue/keepdim", kthvalue(x[0], 1, {.dim = 0, .keepdim = true}));
}

const Registrar additions([] {
  add_reductions();
  add_softmax();
  add_norms();
  add_distances();
  add_sorting();
});

}  // namespace
