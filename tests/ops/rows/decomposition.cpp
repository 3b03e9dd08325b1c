// Rows of the ops on matrices: solutions, inverses, determinants, factorisations. Oracles are plain
// loops: Gauss elimination, Cholesky's recursion, Gram and Schmidt's, Jacobi's rotations.
#include <algorithm>

#include "../row.h"

using namespace rows;
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

Matrix unit_matrix(std::int64_t n) {
  Matrix y(n, n);
  for (std::int64_t i = 0; i < n; ++i) y(i, i) = 1;
  return y;
}

Matrix transposed_matrix(const Matrix& x) {
  Matrix y(x.columns, x.rows);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.columns; ++j) y(j, i) = x(i, j);
  return y;
}

Matrix multiplied(const Matrix& a, const Matrix& b) {
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
  const Matrix a = regular(x), b = transposed_matrix(a);
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
  Matrix y = unit_matrix(a.rows);
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
  Matrix v = unit_matrix(n);
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
  const auto [squares, all] = eigen(multiplied(transposed_matrix(a), a));
  Svd y{{}, Matrix(a.rows, k), Matrix(a.columns, k)};
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t from = a.columns - 1 - j;
    y.s.push_back(std::sqrt(squares[static_cast<std::size_t>(from)]));
    for (std::int64_t i = 0; i < a.columns; ++i) y.v(i, j) = all(i, from);
  }
  y.u = multiplied(a, y.v);
  for (std::int64_t j = 0; j < k; ++j)
    for (std::int64_t i = 0; i < a.rows; ++i) y.u(i, j) /= y.s[static_cast<std::size_t>(j)];
  return y;
}

const std::vector<std::vector<Shape>> kSquare{{{3, 3}},       {{1, 1}},    {{2, 4, 4}},
                                              {{2, 1, 2, 2}}, {{0, 3, 3}}, {{0, 0}}};
const std::vector<std::vector<Shape>> kAnySize{{{3, 3}},    {{4, 2}},    {{2, 4}},   {{1, 1}},
                                               {{2, 3, 2}}, {{2, 2, 3}}, {{0, 2, 3}}};

/** A case of operands that the row prepares. */
Case wrapped(const std::string& variant, Oracle oracle,
             const std::vector<std::vector<Shape>>& shapes) {
  return {.variant = variant,
          .oracle = std::move(oracle),
          .operands = {{}},
          .shapes = shapes,
          .factor = 4,
          .half = false};
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

Tensor negative(const Tensor& x) { return -regular(x); }

// ---- results of the golden cases: the signs of vectors cancel -----------------------------------

Tensors eigenvectors(const Tensor& x, char triangle) {
  const auto [values, vectors] = linalg::eigh(x, {.UPLO = triangle});
  return {values, vectors * vectors,
          matmul(vectors * exp(-values).unsqueeze(-2), vectors.transpose(-2, -1))};
}

Tensors singular_vectors(const Tensor& x, bool full) {
  const auto [all_u, s, all_vh] = linalg::svd(x, {.full_matrices = full});
  const std::int64_t k = s.size(-1);
  const Tensor u = all_u.narrow(-1, 0, k), vh = all_vh.narrow(-2, 0, k);
  return {s, u * u, vh * vh, matmul(u, vh)};
}

// Both libraries round f32 in factorisations of several steps.
constexpr double kFactor = 20;

Golden stored(const std::string& variant, const std::string& torch, const std::string& operands) {
  return {variant, torch, operands, kFactor};
}

/** Adds a golden case for each shape: of regular or definite matrices of any size. */
template <class Row, class... Args>
Row& golden_squares(Row&& row, const std::string& torch, const std::string& kind,
                    const Args&... args) {
  return row.golden(stored("", torch, kind + "(4, 4)"), args...)
      .golden(stored("1 by 1", torch, kind + "(1, 1)"), args...)
      .golden(stored("batch", torch, kind + "(2, 2, 3, 3)"), args...)
      .golden(stored("20 by 20", torch, kind + "(20, 20)"), args...);
}
template <class Row, class... Args>
Row& golden_any_size(Row&& row, const std::string& torch, const std::string& prefix,
                     const Args&... args) {
  const std::pair<std::string, const char*> shapes[] = {{"", "regular(4, 4)"},
                                                        {"tall", "regular(5, 3)"},
                                                        {"wide", "regular(3, 5)"},
                                                        {"batch", "regular(2, 3, 2)"},
                                                        {"20 by 9", "regular(20, 9)"}};
  for (const auto& [name, operand] : shapes)
    row.golden(stored(prefix + name, torch, operand), args...);
  return row;
}

// ---- arguments of the fuzzer: drawn operands, if these are square -------------------------------

bool holds_matrices(const Tensor& x) {
  return x.dim() >= 2 && (x.dtype() == f32 || x.dtype() == f64);
}

bool holds_squares(const Tensor& x) { return holds_matrices(x) && x.size(-1) == x.size(-2); }

/** Draws an operand, usually of square matrices. */
Tensor squares(FuzzDraw& d) {
  Shape shape = d.short_shape(1, 4);
  if (shape.rank() >= 2 && d.chance(0.8)) shape[shape.rank() - 1] = shape[shape.rank() - 2];
  return d.floats(shape);
}

/** Returns x near the identity, so that the triangles read are those of definite matrices. */
Tensor near_identity(const Tensor& x) {
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

const Rows determinant_rows("linalg", [] {
  golden_squares(row("inv", CALL(linalg::inv(x[0]))), "linalg.inv", "regular")
      .test_of(regular, wrapped("", for_each([](const Matrix& x) {
                                  return Results{as_result(inverse(regular(x)))};
                                }),
                                kSquare))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = squares(d);
        return Trial{call({x}), holds_squares(x) ? gives(sizes(x)) : refused()};
      });
  golden_squares(row("det", CALL(linalg::det(x[0]))), "linalg.det", "regular")
      .test_of(regular, wrapped("", for_each([](const Matrix& x) {
                                  return Results{{Shape{}, {determinant(regular(x))}}};
                                }),
                                kSquare))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = squares(d);
        return Trial{call({x}), holds_squares(x) ? gives(batch_with(x, {})) : refused()};
      });
  golden_squares(row("slogdet",
                     [](const Tensors& x) {
                       const auto [sign, logabsdet] = linalg::slogdet(x[0]);
                       return Tensors{sign, logabsdet};
                     }),
                 "linalg.slogdet", "regular");
  row("slogdet",
      [](const Tensors& x) {
        const auto [sign, logabsdet] = linalg::slogdet(x[0]);
        return Tensors{logabsdet, sign};
      })
      .test_of(negative, wrapped("", for_each([](const Matrix& x) {
                                   const double d =
                                       determinant(regular(x)) * (x.rows % 2 == 0 ? 1 : -1);
                                   return Results{{Shape{}, {std::log(std::abs(d))}},
                                                  {Shape{}, {d < 0 ? -1.0 : 1.0}}};
                                 }),
                                 kSquare))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = squares(d);
        return Trial{call({x}), holds_squares(x) ? gives_both(batch_with(x, {})) : refused()};
      });
  row("slogdet", [](const Tensors& x) {
    const auto [sign, logabsdet] = linalg::slogdet(-x[0]);
    return Tensors{sign, logabsdet};
  }).golden(stored("negative", "linalg.slogdet(-x0)", "regular(3, 3)"));
  golden_squares(row("cholesky", CALL(linalg::cholesky(x[0], {.upper = upper}), bool upper)),
                 "linalg.cholesky", "definite", false)
      .golden(stored("upper", "linalg.cholesky(x0, upper=True)", "definite(4, 4)"), true)
      .test_of(definite,
               wrapped("", for_each([](const Matrix& x) {
                         return Results{as_result(lower_factor(definite(x)))};
                       }),
                       kSquare),
               false)
      .test_of(definite,
               wrapped("upper", for_each([](const Matrix& x) {
                         return Results{as_result(transposed_matrix(lower_factor(definite(x))))};
                       }),
                       kSquare),
               true)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = squares(d);
        const auto run = call({near_identity(x)}, d.flag());
        return Trial{run, holds_squares(x) ? gives(sizes(x)) : refused()};
      });
  Case solutions = wrapped("", solved,
                           {{{3, 3}, {3, 2}},
                            {{1, 1}, {1, 1}},
                            {{2, 3, 3}, {2, 3, 1}},
                            {{3, 3}, {3}},
                            {{2, 3, 3}, {2, 3}},
                            {{2, 2}, {2, 3, 2, 2}},
                            {{2, 2, 2}, {3, 2, 2, 2}},
                            {{0, 3, 3}, {0, 3, 2}},
                            {{2, 2}, {2, 0}}});
  solutions.operands = {{}, {}};
  row("solve", CALL(linalg::solve(x[0], x[1])))
      .test_of(regular, solutions)
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({a, b}), expected};
      })
      .golden(stored("", "linalg.solve", "regular(4, 4), real(4, 3)"))
      .golden(stored("vector", "linalg.solve", "regular(4, 4), real(4)"))
      .golden(stored("vectors", "linalg.solve", "regular(2, 3, 3), real(2, 3)"))
      .golden(stored("batches", "linalg.solve", "regular(2, 1, 3, 3), real(4, 3, 2)"))
      .golden(stored("one matrix", "linalg.solve", "regular(3, 3), real(2, 3, 2)"));
});

const Rows factorisation_rows("linalg", [] {
  const auto factors = for_each([](const Matrix& x) {
    const Matrix a = regular(x), q = orthogonal(a);
    return Results{as_result(squared(q)), as_result(squared(multiplied(transposed_matrix(q), a)))};
  });
  golden_any_size(row("qr",
                      [](const Tensors& x, linalg::QrMode mode) {
                        const auto [q, r] = linalg::qr(x[0], {.mode = mode});
                        return Tensors{q, r};
                      }),
                  "linalg.qr", "", linalg::QrMode::reduced)
      .golden(stored("complete", "linalg.qr(x0, mode='complete')", "regular(3, 5)"),
              linalg::QrMode::complete)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(d.short_shape(1, 4));
        const bool complete = d.flag();
        Expected expected = refused();
        if (holds_matrices(x)) {
          const Wide m = x.size(-2), n = x.size(-1), k = complete ? m : std::min(m, n);
          expected = std::vector<Sizes>{batch_with(x, {m, k}), batch_with(x, {k, n})};
        }
        return Trial{call({x}, complete ? linalg::QrMode::complete : linalg::QrMode::reduced),
                     expected};
      });
  row("qr",
      [](const Tensors& x, linalg::QrMode mode) {
        const auto [q, r] = linalg::qr(x[0], {.mode = mode});
        return Tensors{q * q, r * r};
      })
      .test_of(regular, wrapped("", factors, kAnySize), linalg::QrMode::reduced)
      .test_of(regular, wrapped("complete", factors, {{{3, 3}}, {{2, 4}}, {{2, 2, 3}}}),
               linalg::QrMode::complete);
  golden_squares(row("eigvalsh", CALL(linalg::eigvalsh(x[0]))), "linalg.eigvalsh", "definite")
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = squares(d);
        return Trial{call({x}), holds_squares(x) ? gives(batch_with(x, {x.size(-1)})) : refused()};
      });
  row("eigvalsh", CALL(linalg::eigvalsh(x[0], {.UPLO = 'U'})))
      .test_of(definite, wrapped("", for_each([](const Matrix& x) {
                                   return Results{{Shape{x.rows}, eigen(definite(x)).first}};
                                 }),
                                 kSquare));
  auto of_squares = row("eigh", [](const Tensors& x, char triangle) {
                      const auto [values, vectors] = linalg::eigh(x[0], {.UPLO = triangle});
                      return Tensors{values, vectors * vectors};
                    }).fuzz([](FuzzDraw& d, const auto& call) {
    const Tensor x = squares(d);
    const char triangle = d.chance(0.1) ? 'x' : d.flag() ? 'L' : 'U';
    Expected expected = refused();
    if (holds_squares(x) && triangle != 'x')
      expected = std::vector<Sizes>{batch_with(x, {x.size(-1)}), sizes(x)};
    return Trial{call({x}, triangle), expected};
  });
  for (const char triangle : {'L', 'U'})
    of_squares.test_of(definite,
                       wrapped(triangle == 'L' ? "" : "upper", for_each([](const Matrix& x) {
                                 const auto [values, vectors] = eigen(definite(x));
                                 return Results{{Shape{x.rows}, values},
                                                as_result(squared(vectors))};
                               }),
                               kSquare),
                       triangle);
  row("eigh", CALL(eigenvectors(x[0], triangle), char triangle))
      .golden(stored("", "eigenvectors", "definite(4, 4)"), 'L')
      .golden(stored("batch", "eigenvectors", "definite(2, 3, 3)"), 'L')
      .golden(stored("upper", "eigenvectors(x0, 'U')", "definite(4, 4)"), 'U')
      .golden(stored("triangle", "eigenvectors", "regular(4, 4)"), 'L');
});

const Rows singular_value_rows("linalg", [] {
  const auto values = [](const std::vector<double>& s) {
    return std::pair{Shape{static_cast<std::int64_t>(s.size())}, s};
  };
  golden_any_size(row("svdvals", CALL(linalg::svdvals(x[0]))), "linalg.svdvals", "")
      .test_of(regular, wrapped("", for_each([=](const Matrix& x) {
                                  return Results{values(svd_of(regular(x)).s)};
                                }),
                                kAnySize))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(d.short_shape(1, 4));
        return Trial{call({x}), holds_matrices(x)
                                    ? gives(batch_with(x, {std::min(x.size(-1), x.size(-2))}))
                                    : refused()};
      });
  row("svd", [](const Tensors& x, bool full) {
    const auto [u, s, vh] = linalg::svd(x[0], {full});
    return Tensors{u, s, vh};
  }).fuzz([](FuzzDraw& d, const auto& call) {
    const Tensor x = d.floats(d.short_shape(1, 4));
    const bool full = d.flag();
    Expected expected = refused();
    if (holds_matrices(x)) {
      const Wide m = x.size(-2), n = x.size(-1), k = std::min(m, n);
      expected = std::vector<Sizes>{batch_with(x, {m, full ? m : k}), batch_with(x, {k}),
                                    batch_with(x, {full ? n : k, n})};
    }
    return Trial{call({x}, full), expected};
  });
  auto first_vectors = row("svd", [](const Tensors& x, bool full) {
    const auto [u, s, vh] = linalg::svd(x[0], {.full_matrices = full});
    const Tensor first_u = u.narrow(-1, 0, s.size(-1)), first_v = vh.narrow(-2, 0, s.size(-1));
    return Tensors{s, first_u * first_u, first_v * first_v};
  });
  for (const bool full : {false, true})
    first_vectors.test_of(regular,
                          wrapped(full ? "full" : "", for_each([=](const Matrix& x) {
                                    const Svd y = svd_of(regular(x));
                                    return Results{values(y.s), as_result(squared(y.u)),
                                                   as_result(squared(transposed_matrix(y.v)))};
                                  }),
                                  kAnySize),
                          full);
  auto vectors = row("svd", CALL(singular_vectors(x[0], full), bool full));
  golden_any_size(vectors, "singular_vectors(x0, False)", "", false);
  golden_any_size(vectors, "singular_vectors(x0, True)", "full ", true);
  golden_any_size(row("pinv", CALL(linalg::pinv(x[0], o), const linalg::PinvOptions& o)),
                  "linalg.pinv", "")
      .test_of(regular,
               wrapped("", for_each([](const Matrix& x) {
                         const Matrix a = regular(x), t = transposed_matrix(a);
                         return Results{as_result(a.rows >= a.columns
                                                      ? multiplied(inverse(multiplied(t, a)), t)
                                                      : multiplied(t, inverse(multiplied(a, t))))};
                       }),
                       kAnySize),
               {})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(d.short_shape(1, 4));
        const linalg::PinvOptions options{.rtol = d.real(-0.1, 0.5), .atol = d.real(-0.1, 0.5)};
        const bool valid = *options.rtol >= 0 && *options.atol >= 0;
        return Trial{call({x}, options), holds_matrices(x) && valid
                                             ? gives(batch_with(x, {x.size(-1), x.size(-2)}))
                                             : refused()};
      })
      .golden(stored("rank 1", "linalg.pinv", "given([[1., 2.], [2., 4.], [4., 8.]], True)"))
      .golden(stored("rtol", "linalg.pinv(x0, rtol=0.7)", "regular(4, 3)"), {.rtol = 0.7})
      .golden(stored("atol", "linalg.pinv(x0, atol=4.5)", "regular(4, 3)"), {.atol = 4.5});
  auto norms =
      row("matrix_norm", CALL(linalg::matrix_norm(x[0], order, o), const MatrixOrder& order,
                              const MatrixNormOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(d.short_shape(2, 4));
            const MatrixNormOptions options{.keepdim = d.flag()};
            const MatrixOrder order =
                d.flag() ? MatrixOrder("nuc") : MatrixOrder(d.one_of<std::int64_t>({2, -2}));
            return Trial{call({x}, order, options),
                         gives(reduced(sizes(x), {-2, -1}, options.keepdim))};
          })
          .golden(stored("nuc", "linalg.matrix_norm(x0, 'nuc')", "real(2, 3, 4)"), "nuc", {})
          .golden(stored("2", "linalg.matrix_norm(x0, 2)", "real(2, 3, 4)"), 2, {})
          .golden(stored("-2", "linalg.matrix_norm(x0, -2)", "real(2, 3, 4)"), -2, {})
          .golden(
              stored("dimensions", "linalg.matrix_norm(x0, 'nuc', (2, 0), True)", "real(3, 2, 4)"),
              "nuc", {.dim = {2, 0}, .keepdim = true});
  const std::vector<std::pair<const char*, MatrixOrder>> orders{
      {"nuc", "nuc"}, {"2", 2}, {"-2", -2}};
  for (const auto& [name, order] : orders)
    for (const bool keepdim : {false, true}) {
      const std::string variant = std::string(name) + (keepdim ? " keepdim" : "");
      norms.test_of(regular,
                    wrapped(variant, for_each([order = order, keepdim](const Matrix& x) {
                              const std::vector<double> s = svd_of(regular(x)).s;
                              double y = order.number > 0 ? s.front() : s.back();
                              if (order.nuclear) y = 0;
                              for (const double v : s) y += order.nuclear ? v : 0;
                              return Results{{keepdim ? Shape{1, 1} : Shape{}, {y}}};
                            }),
                            kAnySize),
                    order, {.keepdim = keepdim});
    }
});

}  // namespace
