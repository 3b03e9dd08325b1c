// Rows of the ops on matrices. Those that need certain matrices get them from drawn operands, if
// these are square.
#include <algorithm>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

bool holds_matrices(const Tensor& x) {
  return x.dim() >= 2 && (x.dtype() == f32 || x.dtype() == f64);
}

bool holds_squares(const Tensor& x) { return holds_matrices(x) && x.size(-1) == x.size(-2); }

/** Draws an operand, usually of square matrices. */
Tensor squares(Draw& d) {
  Shape shape = d.short_shape(1, 4);
  if (shape.rank() >= 2 && d.chance(0.8)) shape[shape.rank() - 1] = shape[shape.rank() - 2];
  return d.floats(shape);
}

/** Returns x near the identity, so that the triangles read are those of definite matrices. */
Tensor definite(const Tensor& x) {
  if (!holds_squares(x) || x.size(-1) > 100) return x;
  return x * 0.05 + eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()});
}

/** Returns the sizes of the batch, followed by `last`. */
Sizes batch_with(const Tensor& x, std::initializer_list<Wide> last) {
  Sizes y = sizes(x);
  y.resize(y.size() - 2);
  y.insert(y.end(), last);
  return y;
}

template <Tensor (*function)(const Tensor&)> Trial square_trial(Draw& d, bool scalar) {
  const Tensor x = squares(d);
  return {[=] { return list(function(x)); },
          !holds_squares(x) ? refused() : gives(scalar ? batch_with(x, {}) : sizes(x))};
}

const Rows rows([] {
  add_row("inv", [](Draw& d) { return square_trial<&linalg::inv>(d, false); });
  add_row("det", [](Draw& d) { return square_trial<&linalg::det>(d, true); });
  add_row("slogdet", [](Draw& d) {
    const Tensor x = squares(d);
    return Trial{[=] {
                   const auto [sign, logabsdet] = linalg::slogdet(x);
                   return std::vector<Tensor>{logabsdet, sign};
                 },
                 holds_squares(x) ? gives_both(batch_with(x, {})) : refused()};
  });
  add_row("cholesky", [](Draw& d) {
    const Tensor x = squares(d);
    const bool upper = d.flag();
    return Trial{[=] { return list(linalg::cholesky(definite(x), {.upper = upper})); },
                 holds_squares(x) ? gives(sizes(x)) : refused()};
  });
  add_row("solve", [](Draw& d) {
    const Tensor a = squares(d);
    Shape shape = a.shape();
    if (d.chance(0.8)) shape[shape.rank() - 1] = d.below(4);
    const Tensor b = d.tensor(d.flag() ? shape : d.like(shape), a.dtype());
    Expected expected = refused();
    if (holds_squares(a)) {
      Sizes vectors = sizes(a), x = sizes(b);
      vectors.pop_back();
      const bool is_vector = x.size() == 1 || x == vectors;
      if (is_vector) x.push_back(1);
      if (x.size() >= 2 && x[x.size() - 2] == a.size(-1)) {
        const Wide columns = x.back();
        x.resize(x.size() - 2);
        auto batch = broadcast(batch_with(a, {}), x);
        if (batch) batch->push_back(a.size(-1));
        if (batch && !is_vector) batch->push_back(columns);
        expected = gives(batch);
      }
    }
    return Trial{[=] { return list(linalg::solve(a, b)); }, expected};
  });
  add_row("qr", [](Draw& d) {
    const Tensor x = d.floats(d.short_shape(1, 4));
    const bool complete = d.flag();
    Expected expected = refused();
    if (holds_matrices(x)) {
      const Wide m = x.size(-2), n = x.size(-1), k = complete ? m : std::min(m, n);
      expected = std::vector<Sizes>{batch_with(x, {m, k}), batch_with(x, {k, n})};
    }
    return Trial{[=] {
                   const auto [q, r] = linalg::qr(
                       x, {complete ? linalg::QrMode::complete : linalg::QrMode::reduced});
                   return std::vector<Tensor>{q, r};
                 },
                 expected};
  });
  add_row("eigh", [](Draw& d) {
    const Tensor x = squares(d);
    const char triangle = d.chance(0.1) ? 'x' : d.flag() ? 'L' : 'U';
    Expected expected = refused();
    if (holds_squares(x) && triangle != 'x')
      expected = std::vector<Sizes>{batch_with(x, {x.size(-1)}), sizes(x)};
    return Trial{[=] {
                   const auto [values, vectors] = linalg::eigh(x, {triangle});
                   return std::vector<Tensor>{values, vectors};
                 },
                 expected};
  });
  add_row("eigvalsh", [](Draw& d) {
    const Tensor x = squares(d);
    return Trial{[=] { return list(linalg::eigvalsh(x)); },
                 holds_squares(x) ? gives(batch_with(x, {x.size(-1)})) : refused()};
  });
  add_row("svd", [](Draw& d) {
    const Tensor x = d.floats(d.short_shape(1, 4));
    const bool full = d.flag();
    Expected expected = refused();
    if (holds_matrices(x)) {
      const Wide m = x.size(-2), n = x.size(-1), k = std::min(m, n);
      expected = std::vector<Sizes>{batch_with(x, {m, full ? m : k}), batch_with(x, {k}),
                                    batch_with(x, {full ? n : k, n})};
    }
    return Trial{[=] {
                   const auto [u, s, vh] = linalg::svd(x, {full});
                   return std::vector<Tensor>{u, s, vh};
                 },
                 expected};
  });
  add_row("svdvals", [](Draw& d) {
    const Tensor x = d.floats(d.short_shape(1, 4));
    return Trial{
        [=] { return list(linalg::svdvals(x)); },
        holds_matrices(x) ? gives(batch_with(x, {std::min(x.size(-1), x.size(-2))})) : refused()};
  });
  add_row("pinv", [](Draw& d) {
    const Tensor x = d.floats(d.short_shape(1, 4));
    const linalg::PinvOptions options{.rtol = d.real(-0.1, 0.5), .atol = d.real(-0.1, 0.5)};
    const bool valid = *options.rtol >= 0 && *options.atol >= 0;
    return Trial{
        [=] { return list(linalg::pinv(x, options)); },
        holds_matrices(x) && valid ? gives(batch_with(x, {x.size(-1), x.size(-2)})) : refused()};
  });
  add_row("matrix_norm", [](Draw& d) {
    const Tensor x = d.floats(d.short_shape(2, 4));
    const MatrixNormOptions options{.keepdim = d.flag()};
    const MatrixOrder order =
        d.flag() ? MatrixOrder("nuc") : MatrixOrder(d.one_of<std::int64_t>({2, -2}));
    return Trial{[=] { return list(matrix_norm(x, order, options)); },
                 gives(reduced(sizes(x), {-2, -1}, options.keepdim))};
  });
});

}  // namespace
