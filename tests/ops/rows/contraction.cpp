// Rows of bilinear, chain_matmul, cross, einsum, multi_dot, prelu and tensordot.
#include <algorithm>
#include <map>

#include "../row.h"
#include "letters.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

/** Sums over all labels in plain loops. Every label is a letter; sizes of 1 broadcast. */
Array labelled_sum(const std::vector<std::string>& terms, const std::string& output,
                   const std::vector<Array>& x) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t k = 0; k < terms.size(); ++k)
    for (std::size_t i = 0; i < terms[k].size(); ++i) {
      std::int64_t& size = sizes.emplace(terms[k][i], 1).first->second;
      const std::int64_t here = x[k].shape[static_cast<std::int64_t>(i)];
      if (here != 1) size = here;
    }
  const auto place = [&](const std::string& labels, const Shape& shape,
                         std::map<char, std::int64_t>& at) {
    std::int64_t flat = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::int64_t size = shape[static_cast<std::int64_t>(i)];
      flat = flat * size + (size == 1 ? 0 : at[labels[i]]);
    }
    return flat;
  };
  Shape shape;
  std::int64_t numel = 1, steps = 1;
  for (const char label : output) shape.push_back(sizes[label]);
  for (const std::int64_t size : shape) numel *= size;
  for (const auto& label : sizes) steps *= label.second;
  Array y{shape, std::vector<double>(static_cast<std::size_t>(numel), 0.0)};
  for (std::int64_t step = 0; step < steps; ++step) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = step;
    for (const auto& label : sizes) {
      at[label.first] = rest % label.second;
      rest /= label.second;
    }
    double product = 1;
    for (std::size_t k = 0; k < terms.size(); ++k) product *= x[k][place(terms[k], x[k].shape, at)];
    y.values[static_cast<std::size_t>(place(output, shape, at))] += product;
  }
  return y;
}

Oracle sum_over(std::vector<std::string> terms, std::string output) {
  return [=](const std::vector<Array>& x) {
    return std::vector<Array>{labelled_sum(terms, output, x)};
  };
}

Oracle chain_oracle(std::size_t n) {
  return [n](const std::vector<Array>& x) {
    std::vector<std::string> terms;
    for (std::size_t i = 0; i < n; ++i) {
      const char first = static_cast<char>('a' + i), second = static_cast<char>('b' + i);
      const bool row = i == 0 && x[i].shape.rank() == 1;
      const bool column = i + 1 == n && x[i].shape.rank() == 1;
      terms.push_back(row      ? std::string(1, second)
                      : column ? std::string(1, first)
                               : std::string{first, second});
    }
    std::string output;
    if (x[0].shape.rank() == 2) output += 'a';
    if (x[n - 1].shape.rank() == 2) output += static_cast<char>('a' + n);
    return std::vector<Array>{labelled_sum(terms, output, x)};
  };
}

const Operand small{.low = -1, .high = 1};

const Rows einsum_rows("linear", [] {
  auto any =
      row("einsum", CALL(einsum(equation, x), const std::string& equation))
          .fuzz([](FuzzDraw& d, const auto& call) {
            Letters s(d);
            const Tensor a = s({0, 1, 2}), b = s({2, 3});
            const bool summed = d.flag();
            // Sizes of 1 broadcast, and so do the letters' sizes.
            const bool ranks = a.dim() == 3 && b.dim() == 2;
            const bool meet =
                ranks && (a.shape()[2] == b.shape()[0] || a.shape()[2] == 1 || b.shape()[0] == 1);
            const Sizes whole = ranks ? Sizes{a.shape()[0], a.shape()[1], b.shape()[1]} : Sizes{};
            return Trial{call({a, b}, summed ? "abc,cd->bd" : "abc,cd"),
                         !meet    ? refused()
                         : summed ? gives({whole[1], whole[2]})
                                  : gives(whole)};
          });
  const auto add_einsum = [&](const std::string& equation, std::vector<std::string> terms,
                              const std::string& output, std::vector<std::vector<Shape>> shapes) {
    any.test({.variant = equation,
              .oracle = sum_over(terms, output),
              .operands = std::vector<Operand>(terms.size(), small),
              .shapes = std::move(shapes),
              .factor = 2},
             equation);
  };
  add_einsum("ij,jk->ik", {"ij", "jk"}, "ik",
             {{{3, 4}, {4, 5}}, {{2, 0}, {0, 3}}, {{3, 1}, {4, 2}}});
  add_einsum("ij,jk", {"ij", "jk"}, "ik", {{{3, 4}, {4, 5}}});
  add_einsum("ba,ca", {"ba", "ca"}, "bc", {{{3, 4}, {5, 4}}});
  add_einsum("bij, bjk -> bik", {"bij", "bjk"}, "bik",
             {{{2, 3, 4}, {2, 4, 2}}, {{1, 3, 4}, {2, 4, 2}}});
  add_einsum("bthd,bshd->bhts", {"bthd", "bshd"}, "bhts", {{{2, 3, 2, 4}, {2, 5, 2, 4}}});
  add_einsum("...ij,...jk->...ik", {"abij", "bjk"}, "abik",
             {{{2, 3, 2, 4}, {3, 4, 2}}, {{2, 1, 2, 3}, {3, 3, 2}}});
  add_einsum("i...,i...", {"iab", "iab"}, "ab", {{{3, 2, 4}, {3, 2, 4}}, {{3, 1, 4}, {3, 2, 1}}});
  add_einsum("i,j->ji", {"i", "j"}, "ji", {{{3}, {4}}, {{0}, {2}}});
  add_einsum("ij,ij->ij", {"ij", "ij"}, "ij", {{{3, 4}, {3, 4}}, {{3, 1}, {1, 4}}});
  add_einsum("ij,ij->", {"ij", "ij"}, "", {{{3, 4}, {3, 4}}});
  add_einsum("ij,jk->k", {"ij", "jk"}, "k", {{{3, 4}, {4, 2}}});
  add_einsum("ii", {"ii"}, "", {{{4, 4}}});
  add_einsum("iji->ji", {"iji"}, "ji", {{{3, 2, 3}}});
  add_einsum("ii,i->i", {"ii", "i"}, "i", {{{3, 3}, {3}}});
  add_einsum("...ij->...ji", {"aij"}, "aji", {{{2, 3, 4}}});
  add_einsum("...->", {"ab"}, "", {{{3, 4}}});
  add_einsum("bn,anm,bm->ba", {"bn", "anm", "bm"}, "ba", {{{2, 3}, {4, 3, 2}, {2, 2}}});
  add_einsum("abcd,efgd->abcefg", {"abcd", "efgd"}, "abcefg", {{{2, 1, 2, 3}, {2, 2, 1, 3}}});

  const auto add_golden = [&](const std::string& equation, const char* operands) {
    any.golden({equation, "lambda *x: torch.einsum('" + equation + "', *x)", operands}, equation);
  };
  add_golden("ij,jk->ik", "real(3, 4), real(4, 5)");
  add_golden("ij,jk", "real(3, 4), real(4, 5)");
  add_golden("bij,bjk->bik", "real(2, 3, 4), real(2, 4, 5)");
  add_golden("ii->i", "real(3, 3)");
  add_golden("ii", "real(3, 3)");
  add_golden("ij->ji", "real(3, 4)");
  add_golden("i,j->ij", "real(3), real(4)");
  add_golden("...ij,...jk->...ik", "real(2, 3, 4), real(4, 5)");
  add_golden("bn,anm,bm->ba", "real(2, 3), real(5, 3, 4), real(2, 4)");
  add_golden("ij->", "real(3, 4)");
  add_golden("bhqd,bhkd->bhqk", "real(1, 2, 3, 4), real(1, 2, 5, 4)");
});

const Rows multi_dot_rows("linear", [] {
  row("multi_dot", CALL(multi_dot(x)))
      .test({.oracle = chain_oracle(2),
             .operands = {small, small},
             .shapes = {{{3, 4}, {4, 5}}, {{4}, {4, 3}}, {{3, 4}, {4}}, {{4}, {4}}}})
      .test({.variant = "of three",
             .oracle = chain_oracle(3),
             .operands = {small, small, small},
             .shapes = {{{2, 5}, {5, 1}, {1, 4}},
                        {{4, 1}, {1, 5}, {5, 2}},
                        {{3}, {3, 2}, {2}},
                        {{2, 0}, {0, 3}, {3, 2}}},
             .factor = 4})
      .test(
          {.variant = "of five",
           .oracle = chain_oracle(5),
           .operands = std::vector<Operand>(5, small),
           .shapes = {{{3, 2}, {2, 4}, {4, 1}, {1, 5}, {5, 2}}, {{2}, {2, 3}, {3, 3}, {3, 2}, {2}}},
           .factor = 8})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1}), b = s({1, 2}), c = s({2, 3});
        // The first and the last operand may be vectors, whose dimension the result lacks.
        const bool ranks =
            (a.dim() == 1 || a.dim() == 2) && b.dim() == 2 && (c.dim() == 1 || c.dim() == 2);
        const bool fits = ranks && a.size(-1) == b.shape()[0] && b.shape()[1] == c.shape()[0];
        Sizes shape;
        if (fits && a.dim() == 2) shape.push_back(a.shape()[0]);
        if (fits && c.dim() == 2) shape.push_back(c.shape()[1]);
        return Trial{call({a, b, c}), fits ? gives(shape) : refused()};
      })
      .golden({"", "torch.linalg.multi_dot((x0, x1, x2, x3))",
               "real(3, 2), real(2, 5), real(5, 4), real(4)"});
  row("chain_matmul", CALL(chain_matmul(x)))
      .test({.oracle = chain_oracle(3),
             .operands = {small, small, small},
             .shapes = {{{2, 5}, {5, 1}, {1, 4}}},
             .factor = 4})
      .test({.variant = "of one",
             .oracle = chain_oracle(1),
             .shapes = {{{2, 5}}},
             .exact_shapes_only = true})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1}), b = s({1, 2}), c = s({2, 3});
        const bool fits = a.dim() == 2 && b.dim() == 2 && c.dim() == 2 &&
                          a.shape()[1] == b.shape()[0] && b.shape()[1] == c.shape()[0];
        return Trial{call({a, b, c}), fits ? gives({a.shape()[0], c.shape()[1]}) : refused()};
      })
      .golden({"", "torch.chain_matmul", "real(3, 2), real(2, 5), real(5, 4)"});
  auto dots =
      row("tensordot", CALL(tensordot(x[0], x[1], dims), const TensordotDims& dims))
          .fuzz([](FuzzDraw& d, const auto& call) {
            Letters s(d);
            const Tensor a = s({0, 1, 2}), b = s({1, 2, 3});
            const std::int64_t n = d.number(0, 3);
            const bool listed = d.chance(0.3);
            const std::vector<std::int64_t> first = d.numbers(2, -3, 2),
                                            second = d.numbers(2, -3, 2);
            Sizes shape;
            bool fits = true;
            if (listed) {
              const auto left = reduced(sizes(a), first, false),
                         right = reduced(sizes(b), second, false);
              fits = first.size() == second.size() && left && right;
              if (fits) shape = first.empty() ? sizes(a) : *left;
              const Sizes rest = second.empty() ? sizes(b) : right ? *right : Sizes{};
              shape.insert(shape.end(), rest.begin(), rest.end());
            } else {
              fits = n >= 0 && n <= std::min(a.dim(), b.dim());
              for (int i = 0; fits && i < a.dim() - n; ++i) shape.push_back(a.shape()[i]);
              for (std::int64_t i = n; fits && i < b.dim(); ++i) shape.push_back(b.shape()[i]);
            }
            return Trial{call({a, b}, listed ? TensordotDims(first, second) : TensordotDims(n)),
                         fits ? gives(shape) : refused()};
          })
          .golden({"", "torch.tensordot(x0, x1, 2)", "real(2, 3, 4), real(3, 4, 5)"})
          .golden({"dimensions", "torch.tensordot(x0, x1, ([0, 2], [1, 0]))",
                   "real(2, 3, 4), real(4, 2, 5)"},
                  TensordotDims({0, 2}, {1, 0}));
  const auto add = [&](const char* variant, const TensordotDims& dims,
                       std::vector<std::string> terms, std::string output,
                       std::vector<std::vector<Shape>> shapes) {
    dots.test({.variant = variant,
               .oracle = sum_over(std::move(terms), std::move(output)),
               .operands = {small, small},
               .shapes = std::move(shapes)},
              dims);
  };
  add("", {}, {"abc", "bcd"}, "ad", {{{2, 3, 4}, {3, 4, 2}}, {{2, 0, 4}, {0, 4, 2}}});
  add("over one", 1, {"ab", "bcd"}, "acd", {{{2, 3}, {3, 4, 2}}});
  add("outer product", 0, {"ab", "c"}, "abc", {{{2, 3}, {4}}});
  add("lists", {{1, 0}, {0, -1}}, {"abc", "bda"}, "cd", {{{4, 3, 2}, {3, 2, 4}}});
});

std::vector<Array> bilinear_oracle(const std::vector<Array>& x) {
  Array flat1 = x[0], flat2 = x[1];
  const std::int64_t n = x[0].shape.back(), m = x[1].shape.back(), rows = x[0].numel() / n;
  flat1.shape = {rows, n};
  flat2.shape = {rows, m};
  Array y = labelled_sum({"rn", "rm", "onm"}, "ro", {flat1, flat2, x[2]});
  y.shape = x[0].shape;
  y.shape[y.shape.rank() - 1] = x[2].shape[0];
  if (x.size() > 3)
    for (std::int64_t i = 0; i < y.numel(); ++i)
      y.values[static_cast<std::size_t>(i)] += x[3][i % x[3].numel()];
  return std::vector<Array>{y};
}

/** The cross product along the dimension that has `from_last` behind it. */
Oracle cross_oracle(int from_last) {
  return [from_last](const std::vector<Array>& x) {
    const Shape shape = broadcast_shapes(x[0].shape, x[1].shape, "oracle");
    const int dim = shape.rank() - 1 - from_last;
    std::int64_t inner = 1, numel = 1;
    for (int i = dim + 1; i < shape.rank(); ++i) inner *= shape[i];
    for (const std::int64_t size : shape) numel *= size;
    Array y{shape, std::vector<double>(static_cast<std::size_t>(numel))};
    for (std::int64_t i = 0; i < numel; ++i) {
      const std::int64_t component = i / inner % 3, start = i - component * inner;
      const std::int64_t j = start + (component + 1) % 3 * inner,
                         k = start + (component + 2) % 3 * inner;
      y.values[static_cast<std::size_t>(i)] =
          broadcast_at(x[0], shape, j) * broadcast_at(x[1], shape, k) -
          broadcast_at(x[0], shape, k) * broadcast_at(x[1], shape, j);
    }
    return std::vector<Array>{y};
  };
}

const Rows bilinear_rows("linear", [] {
  row("bilinear", CALL(bilinear(x[0], x[1], x[2], optional(x, 3))))
      .test({.oracle = bilinear_oracle,
             .operands = {small, small, small, small},
             .shapes = {{{2, 3}, {2, 4}, {5, 3, 4}, {5}},
                        {{3}, {2}, {2, 3, 2}, {2}},
                        {{2, 2, 3}, {2, 2, 1}, {2, 3, 1}, {2}}},
             .factor = 2})
      .test({.variant = "no bias",
             .oracle = bilinear_oracle,
             .operands = {small, small, small},
             .shapes = {{{2, 3}, {2, 4}, {5, 3, 4}}},
             .factor = 2})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1}), b = s({0, 2}), w = s({3, 1, 2}),
                     bias = d.optional({s.n[3]}, s.dtype);
        Sizes shape = sizes(a);
        const bool fits = a.dim() > 0 && a.dim() == b.dim() && w.dim() == 3;
        if (fits) shape.back() = w.shape()[0];
        return Trial{call({a, b, w, bias}), fits ? gives(shape) : refused()};
      })
      .golden({"", "F.bilinear", "real(2, 3), real(2, 4), real(5, 3, 4), real(5)"})
      .golden({"without bias", "F.bilinear", "real(2, 2, 3), real(2, 2, 4), real(5, 3, 4)"});
  row("cross", CALL(cross(x[0], x[1], o), const CrossOptions& o))
      .test({.oracle = cross_oracle(0),
             .operands = {{}, {}},
             .shapes = {{{3}, {3}}, {{2, 3}, {2, 3}}, {{4, 1, 3}, {2, 3}}, {{0, 3}, {3}}}})
      .test({.variant = "along a named dimension",
             .oracle = cross_oracle(1),
             .operands = {{}, {}},
             .shapes = {{{2, 3, 4}, {2, 3, 4}}, {{2, 3, 1}, {3, 4}}}},
            {.dim = 1})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Shape shape = d.shape(1, 3);
        const std::int64_t dim = d.dim(shape.rank());
        const auto at = resolved(dim, shape.size());
        if (at && d.chance(0.9)) shape[static_cast<std::int64_t>(*at)] = 3;
        const DType dtype = d.dtype();
        const Tensor a = d.tensor(shape, dtype), b = d.tensor(d.like(shape), dtype);
        const auto whole = broadcast(sizes(a), sizes(b));
        return Trial{call({a, b}, {dim}),
                     whole && resolved(dim, whole->size()) ? gives(whole) : refused()};
      })
      .golden({"", "torch.linalg.cross(x0, x1)", "real(2, 3), real(2, 3)"})
      .golden({"dimension", "torch.linalg.cross(x0, x1, dim=0)", "real(3, 2), real(3, 1)"},
              {.dim = 0});
});

const Rows slope_rows("pointwise", [] {
  row("prelu", CALL(prelu(x[0], x[1])))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const Shape& shape = x[0].shape;
                   std::int64_t inner = 1;
                   for (int i = 2; i < shape.rank(); ++i) inner *= shape[i];
                   Array y = x[0];
                   for (std::int64_t i = 0; i < y.numel(); ++i) {
                     const double w = x[1][x[1].numel() == 1 ? 0 : i / inner % shape[1]];
                     if (y[i] <= 0) y.values[static_cast<std::size_t>(i)] *= w;
                   }
                   return std::vector<Array>{y};
                 },
             .operands = {{.kinks = {0}}, {.low = 0, .high = 1}},
             .shapes = {{{2, 3, 4}, {3}},
                        {{2, 3}, {1}},
                        {{5}, Shape{}},
                        {Shape{}, {1}},
                        {{2, 3}, {3}},
                        {{0, 3}, {3}}},
             .factor = 2})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(0, 4);
        const std::int64_t channels = x.dim() >= 2 ? x.shape()[1] : 1;
        const Tensor w = d.tensor(d.flag() ? Shape{1} : Shape{channels}, x.dtype());
        return Trial{call({x, w}), gives(sizes(x))};
      })
      .golden({"", "F.prelu", "real(2, 3, 4), real(3)"})
      .golden({"one slope", "F.prelu", "real(2, 3, 4), real(1)"});
});

}  // namespace
