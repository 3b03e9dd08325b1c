// Cases of the ops on matrices: solutions, inverses, determinants, factorisations. Oracles are
// plain loops: Gauss elimination, Cholesky's recursion, Gram and Schmidt's, Jacobi's rotations.
#include <algorithm>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

/** One matrix of the oracles. */
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix(std::int64_t m, std::int64_t n)
      : rows(m), columns(n), values(static_cast<std::size_t>(m * n)) {}
  double& operator()(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix identity(std::int64_t n) {
  Matrix y(n, n);
  for (std::int64_t i = 0; i < n; ++i) y(i, i) = 1;
  return y;
}

Matrix transposed(const Matrix& x) {
  Matrix y(x.columns, x.rows);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.columns; ++j) y(j, i) = x(i, j);
  return y;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix y(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) y(i, j) += a(i, k) * b(k, j);
  return y;
}

Matrix squared(Matrix x) {
  for (double& v : x.values) v *= v;
  return x;
}

using Results = std::vector<std::pair<Shape, std::vector<double>>>;

/** Applies f to each matrix of operand 0 and joins its results to batches. */
Oracle for_each(const std::function<Results(const Matrix&)>& f) {
  return [f](const std::vector<Array>& x) {
    Shape batch = x[0].shape;
    const std::int64_t n = batch.back();
    batch.erase(batch.rank() - 1);
    const std::int64_t m = batch.back();
    batch.erase(batch.rank() - 1);
    std::int64_t count = 1;
    for (const std::int64_t size : batch) count *= size;
    std::vector<Array> joined;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(count, 1); ++i) {
      Matrix a(m, n);
      if (count > 0 && m * n > 0)
        std::copy_n(x[0].values.begin() + i * m * n, m * n, a.values.begin());
      const Results results = f(a);
      joined.resize(results.size());
      for (std::size_t k = 0; k < results.size(); ++k) {
        joined[k].shape = batch;
        for (const std::int64_t size : results[k].first) joined[k].shape.push_back(size);
        if (count > 0)
          joined[k].values.insert(joined[k].values.end(), results[k].second.begin(),
                                  results[k].second.end());
      }
    }
    return joined;
  };
}

std::pair<Shape, std::vector<double>> as_result(const Matrix& x) {
  return {{x.rows, x.columns}, x.values};
}

// ---- operands: the same in tensors and in the oracles -------------------------------------------

/** Returns x / n + (2 + i) at the diagonal: well conditioned, with separate singular values. */
Tensor regular(const Tensor& x) {
  const std::int64_t m = x.size(-2), n = x.size(-1);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Tensor rows = eye(m, n, like) * (arange(n, like) + 3.0);
  return x / static_cast<double>(std::max<std::int64_t>(1, std::max(m, n))) + rows;
}

Matrix regular(Matrix x) {
  const auto size = static_cast<double>(std::max<std::int64_t>(1, std::max(x.rows, x.columns)));
  for (double& v : x.values) v /= size;
  for (std::int64_t i = 0; i < std::min(x.rows, x.columns); ++i)
    x(i, i) += static_cast<double>(i) + 3;
  return x;
}

/** Returns a symmetric positive definite matrix with separate eigenvalues. */
Tensor definite(const Tensor& x) {
  const Tensor a = regular(x);
  return 0.5 * (a + a.transpose(-2, -1));
}

Matrix definite(const Matrix& x) {
  const Matrix a = regular(x), b = transposed(a);
  Matrix y = a;
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = 0.5 * (a.values[i] + b.values[i]);
  return y;
}

// ---- oracles ------------------------------------------------------------------------------------

/** Eliminates by Gauss and Jordan with pivoting: b becomes a^-1 b. Returns the determinant. */
double eliminate(Matrix a, Matrix& b) {
  double determinant = 1;
  for (std::int64_t k = 0; k < a.rows; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k; i < a.rows; ++i)
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    if (pivot != k) determinant = -determinant;
    for (std::int64_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(pivot, j));
    for (std::int64_t j = 0; j < b.columns; ++j) std::swap(b(k, j), b(pivot, j));
    determinant *= a(k, k);
    if (a(k, k) == 0) return 0;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      if (i == k) continue;
      const double factor = a(i, k) / a(k, k);
      for (std::int64_t j = 0; j < a.columns; ++j) a(i, j) -= factor * a(k, j);
      for (std::int64_t j = 0; j < b.columns; ++j) b(i, j) -= factor * b(k, j);
    }
    for (std::int64_t j = 0; j < b.columns; ++j) b(k, j) /= a(k, k);
    for (std::int64_t j = a.columns - 1; j >= k; --j) a(k, j) /= a(k, k);
  }
  return determinant;
}

Matrix inverse(const Matrix& a) {
  Matrix y = identity(a.rows);
  eliminate(a, y);
  return y;
}

double determinant(const Matrix& a) {
  Matrix none(a.rows, 0);
  return eliminate(a, none);
}

Matrix lower_factor(const Matrix& a) {
  Matrix l(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double rest = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  return l;
}

/** Returns Q for the first min(m,n) columns, by Gram and Schmidt. */
Matrix orthogonal(const Matrix& a) {
  Matrix q(a.rows, std::min(a.rows, a.columns));
  for (std::int64_t j = 0; j < q.columns; ++j) {
    std::vector<double> column;
    for (std::int64_t i = 0; i < a.rows; ++i) column.push_back(a(i, j));
    for (int repeat = 0; repeat < 2; ++repeat)
      for (std::int64_t k = 0; k < j; ++k) {
        double along = 0;
        for (std::int64_t i = 0; i < a.rows; ++i)
          along += q(i, k) * column[static_cast<std::size_t>(i)];
        for (std::int64_t i = 0; i < a.rows; ++i)
          column[static_cast<std::size_t>(i)] -= along * q(i, k);
      }
    double length = 0;
    for (const double v : column) length += v * v;
    for (std::int64_t i = 0; i < a.rows; ++i)
      q(i, j) = column[static_cast<std::size_t>(i)] / std::sqrt(length);
  }
  return q;
}

/** Eigenvalues in ascending order and their vectors as columns, by Jacobi's rotations. */
std::pair<std::vector<double>, Matrix> eigen(Matrix a) {
  const std::int64_t n = a.rows;
  Matrix v = identity(n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) < 1e-300) continue;
        const double angle = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p));
        const double c = std::cos(angle), s = std::sin(angle);
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = a(k, p), y = a(k, q);
          a(k, p) = c * x - s * y, a(k, q) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = a(p, k), y = a(q, k);
          a(p, k) = c * x - s * y, a(q, k) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = v(k, p), y = v(k, q);
          v(k, p) = c * x - s * y, v(k, q) = s * x + c * y;
        }
      }
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t i, std::int64_t j) { return a(i, i) < a(j, j); });
  std::vector<double> values;
  Matrix vectors(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    values.push_back(a(from, from));
    for (std::int64_t i = 0; i < n; ++i) vectors(i, j) = v(i, from);
  }
  return {values, vectors};
}

/** Singular values in descending order, and both kinds of vectors as columns. */
struct Svd {
  std::vector<double> s;
  Matrix u, v;
};

Svd svd_of(const Matrix& a) {
  const std::int64_t k = std::min(a.rows, a.columns);
  const auto [squares, all] = eigen(product(transposed(a), a));
  Svd y{{}, Matrix(a.rows, k), Matrix(a.columns, k)};
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t from = a.columns - 1 - j;
    y.s.push_back(std::sqrt(squares[static_cast<std::size_t>(from)]));
    for (std::int64_t i = 0; i < a.columns; ++i) y.v(i, j) = all(i, from);
  }
  y.u = product(a, y.v);
  for (std::int64_t j = 0; j < k; ++j)
    for (std::int64_t i = 0; i < a.rows; ++i) y.u(i, j) /= y.s[static_cast<std::size_t>(j)];
  return y;
}

const std::vector<std::vector<Shape>> kSquare{{{3, 3}},       {{1, 1}},    {{2, 4, 4}},
                                              {{2, 1, 2, 2}}, {{0, 3, 3}}, {{0, 0}}};
const std::vector<std::vector<Shape>> kAnySize{{{3, 3}},    {{4, 2}},    {{2, 4}},   {{1, 1}},
                                               {{2, 3, 2}}, {{2, 2, 3}}, {{0, 2, 3}}};

/** A case whose call wraps the function in others. */
Case wrapped(const char* op, const char* variant, Call call, Oracle oracle,
             const std::vector<std::vector<Shape>>& shapes) {
  return {.op = op,
          .variant = variant,
          .call = std::move(call),
          .oracle = std::move(oracle),
          .operands = {{}},
          .shapes = shapes,
          .factor = 4,
          .half = false,
          .single_op = false};
}

void add_by_elimination() {
  add_case(wrapped(
      "inv", "", CALL(linalg::inv(regular(x[0]))),
      for_each([](const Matrix& x) { return Results{as_result(inverse(regular(x)))}; }), kSquare));
  add_case(wrapped("det", "", CALL(linalg::det(regular(x[0]))), for_each([](const Matrix& x) {
                     return Results{{Shape{}, {determinant(regular(x))}}};
                   }),
                   kSquare));
  add_case(wrapped(
      "slogdet", "",
      [](const std::vector<Tensor>& x) {
        const auto [sign, logabsdet] = linalg::slogdet(-regular(x[0]));
        return std::vector<Tensor>{logabsdet, sign};
      },
      for_each([](const Matrix& x) {
        const double d = determinant(regular(x)) * (x.rows % 2 == 0 ? 1 : -1);
        return Results{{Shape{}, {std::log(std::abs(d))}}, {Shape{}, {d < 0 ? -1.0 : 1.0}}};
      }),
      kSquare));
  add_case(wrapped(
      "cholesky", "", CALL(linalg::cholesky(definite(x[0]))),
      for_each([](const Matrix& x) { return Results{as_result(lower_factor(definite(x)))}; }),
      kSquare));
  add_case(wrapped("cholesky", "upper", CALL(linalg::cholesky(definite(x[0]), {.upper = true})),
                   for_each([](const Matrix& x) {
                     return Results{as_result(transposed(lower_factor(definite(x))))};
                   }),
                   kSquare));
}

/** The oracle of solve, for a batch of one number of matrices on both sides, or fewer of A. */
std::vector<Array> solved(const std::vector<Array>& x) {
  const std::int64_t n = x[0].shape.back();
  const bool vectors = x[1].shape.rank() == 1 || x[1].shape.rank() == x[0].shape.rank() - 1;
  const std::int64_t columns = vectors ? 1 : x[1].shape.back();
  const std::int64_t size = n * columns, count = size == 0 ? 0 : x[1].numel() / size;
  const std::int64_t matrices = n == 0 ? 0 : x[0].numel() / n / n;
  Array y{x[1].shape, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    Matrix a(n, n), b(n, columns);
    std::copy_n(x[0].values.begin() + i % matrices * n * n, n * n, a.values.begin());
    std::copy_n(x[1].values.begin() + i * size, size, b.values.begin());
    eliminate(regular(a), b);
    y.values.insert(y.values.end(), b.values.begin(), b.values.end());
  }
  return {y};
}

void add_solutions() {
  Case one = wrapped("solve", "", CALL(linalg::solve(regular(x[0]), x[1])), solved,
                     {{{3, 3}, {3, 2}},
                      {{1, 1}, {1, 1}},
                      {{2, 3, 3}, {2, 3, 1}},
                      {{3, 3}, {3}},
                      {{2, 3, 3}, {2, 3}},
                      {{2, 2}, {2, 3, 2, 2}},
                      {{2, 2, 2}, {3, 2, 2, 2}},
                      {{0, 3, 3}, {0, 3, 2}},
                      {{2, 2}, {2, 0}}});
  one.operands = {{}, {}};
  add_case(one);
}

void add_orthogonal() {
  const auto squares = [](const std::vector<Tensor>& x, linalg::QrMode mode) {
    const auto [q, r] = linalg::qr(regular(x[0]), {.mode = mode});
    return std::vector<Tensor>{q * q, r * r};
  };
  const auto factors = [](const Matrix& x) {
    const Matrix a = regular(x), q = orthogonal(a);
    return Results{as_result(squared(q)), as_result(squared(product(transposed(q), a)))};
  };
  add_case(wrapped(
      "qr", "", [=](const std::vector<Tensor>& x) { return squares(x, linalg::QrMode::reduced); },
      for_each(factors), kAnySize));
  add_case(
      wrapped("qr", "complete",
              [=](const std::vector<Tensor>& x) { return squares(x, linalg::QrMode::complete); },
              for_each(factors), {{{3, 3}}, {{2, 4}}, {{2, 2, 3}}}));
}

void add_eigenvalues() {
  const auto of_values = for_each([](const Matrix& x) {
    return Results{{Shape{x.rows}, eigen(definite(x)).first}};
  });
  add_case(wrapped("eigvalsh", "", CALL(linalg::eigvalsh(definite(x[0]), {.UPLO = 'U'})), of_values,
                   kSquare));
  for (const char triangle : {'L', 'U'})
    add_case(wrapped(
        "eigh", triangle == 'L' ? "" : "upper",
        [=](const std::vector<Tensor>& x) {
          const auto [values, vectors] = linalg::eigh(definite(x[0]), {.UPLO = triangle});
          return std::vector<Tensor>{values, vectors * vectors};
        },
        for_each([](const Matrix& x) {
          const auto [values, vectors] = eigen(definite(x));
          return Results{{Shape{x.rows}, values}, as_result(squared(vectors))};
        }),
        kSquare));
}

void add_singular_values() {
  add_case(wrapped("svdvals", "", CALL(linalg::svdvals(regular(x[0]))),
                   for_each([](const Matrix& x) {
                     const Svd y = svd_of(regular(x));
                     return Results{{Shape{static_cast<std::int64_t>(y.s.size())}, y.s}};
                   }),
                   kAnySize));
  for (const bool full : {false, true})
    add_case(wrapped(
        "svd", full ? "full" : "",
        [=](const std::vector<Tensor>& x) {
          const auto [u, s, vh] = linalg::svd(regular(x[0]), {.full_matrices = full});
          const Tensor first_u = u.narrow(-1, 0, s.size(-1)),
                       first_v = vh.narrow(-2, 0, s.size(-1));
          return std::vector<Tensor>{s, first_u * first_u, first_v * first_v};
        },
        for_each([](const Matrix& x) {
          const Svd y = svd_of(regular(x));
          return Results{{Shape{static_cast<std::int64_t>(y.s.size())}, y.s},
                         as_result(squared(y.u)),
                         as_result(squared(transposed(y.v)))};
        }),
        kAnySize));
  add_case(wrapped("pinv", "", CALL(linalg::pinv(regular(x[0]))), for_each([](const Matrix& x) {
                     const Matrix a = regular(x), t = transposed(a);
                     return Results{as_result(a.rows >= a.columns
                                                  ? product(inverse(product(t, a)), t)
                                                  : product(t, inverse(product(a, t))))};
                   }),
                   kAnySize));
}

void add_norms() {
  const std::vector<std::pair<const char*, MatrixOrder>> orders{
      {"nuc", "nuc"}, {"2", 2}, {"-2", -2}};
  for (const auto& [name, order] : orders)
    for (const bool keepdim : {false, true}) {
      const std::string variant = std::string(name) + (keepdim ? " keepdim" : "");
      add_case(wrapped(
          "matrix_norm", variant.c_str(),
          [order = order, keepdim](const std::vector<Tensor>& x) {
            return std::vector<Tensor>{
                linalg::matrix_norm(regular(x[0]), order, {.keepdim = keepdim})};
          },
          for_each([order = order, keepdim](const Matrix& x) {
            const std::vector<double> s = svd_of(regular(x)).s;
            double y = order.number > 0 ? s.front() : s.back();
            if (order.nuclear) y = 0;
            for (const double v : s) y += order.nuclear ? v : 0;
            return Results{{keepdim ? Shape{1, 1} : Shape{}, {y}}};
          }),
          kAnySize));
    }
}

const Registrar additions([] {
  add_by_elimination();
  add_solutions();
  add_orthogonal();
  add_eigenvalues();
  add_singular_values();
  add_norms();
});

}  // namespace
