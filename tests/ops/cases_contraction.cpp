// Cases of bilinear, chain_matmul, cross, einsum, multi_dot, prelu and tensordot.
#include <map>

#include "cases.h"

using namespace cases;
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

void add_einsum(const std::string& equation, std::vector<std::string> terms, std::string output,
                std::vector<std::vector<Shape>> shapes) {
  add_case(
      {.op = "einsum",
       .variant = equation,
       .call =
           [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{einsum(equation, x)}; },
       .oracle = sum_over(terms, output),
       .operands = std::vector<Operand>(terms.size(), Operand{.low = -1, .high = 1}),
       .shapes = std::move(shapes),
       .factor = 2});
}

const Registrar einsums([] {
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
});

Oracle chain(std::size_t n) {
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

const Registrar chains([] {
  const Operand small{.low = -1, .high = 1};
  add_case({.op = "multi_dot",
            .call = CALL(multi_dot(x)),
            .oracle = chain(2),
            .operands = {small, small},
            .shapes = {{{3, 4}, {4, 5}}, {{4}, {4, 3}}, {{3, 4}, {4}}, {{4}, {4}}}});
  add_case({.op = "multi_dot",
            .variant = "of three",
            .call = CALL(multi_dot(x)),
            .oracle = chain(3),
            .operands = {small, small, small},
            .shapes = {{{2, 5}, {5, 1}, {1, 4}},
                       {{4, 1}, {1, 5}, {5, 2}},
                       {{3}, {3, 2}, {2}},
                       {{2, 0}, {0, 3}, {3, 2}}},
            .factor = 4});
  add_case(
      {.op = "multi_dot",
       .variant = "of five",
       .call = CALL(multi_dot(x)),
       .oracle = chain(5),
       .operands = std::vector<Operand>(5, small),
       .shapes = {{{3, 2}, {2, 4}, {4, 1}, {1, 5}, {5, 2}}, {{2}, {2, 3}, {3, 3}, {3, 2}, {2}}},
       .factor = 8});
  add_case({.op = "chain_matmul",
            .call = CALL(chain_matmul(x)),
            .oracle = chain(3),
            .operands = {small, small, small},
            .shapes = {{{2, 5}, {5, 1}, {1, 4}}},
            .factor = 4});
  add_case({.op = "chain_matmul",
            .variant = "of one",
            .call = CALL(chain_matmul(x)),
            .oracle = chain(1),
            .shapes = {{{2, 5}}},
            .exact_shapes_only = true});
});

const Registrar tensordots([] {
  const auto add = [](const char* variant, Call call, std::vector<std::string> terms,
                      std::string output, std::vector<std::vector<Shape>> shapes) {
    add_case({.op = "tensordot",
              .variant = variant,
              .call = std::move(call),
              .oracle = sum_over(std::move(terms), std::move(output)),
              .operands = {{.low = -1, .high = 1}, {.low = -1, .high = 1}},
              .shapes = std::move(shapes)});
  };
  add("", CALL(tensordot(x[0], x[1])), {"abc", "bcd"}, "ad",
      {{{2, 3, 4}, {3, 4, 2}}, {{2, 0, 4}, {0, 4, 2}}});
  add("over one", CALL(tensordot(x[0], x[1], 1)), {"ab", "bcd"}, "acd", {{{2, 3}, {3, 4, 2}}});
  add("outer product", CALL(tensordot(x[0], x[1], 0)), {"ab", "c"}, "abc", {{{2, 3}, {4}}});
  add("lists", CALL(tensordot(x[0], x[1], {{1, 0}, {0, -1}})), {"abc", "bda"}, "cd",
      {{{4, 3, 2}, {3, 2, 4}}});
});

const Registrar others([] {
  const Operand small{.low = -1, .high = 1};
  const Oracle bilinear_oracle = [](const std::vector<Array>& x) {
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
  };
  add_case({.op = "bilinear",
            .call = CALL(bilinear(x[0], x[1], x[2], x[3])),
            .oracle = bilinear_oracle,
            .operands = {small, small, small, small},
            .shapes = {{{2, 3}, {2, 4}, {5, 3, 4}, {5}},
                       {{3}, {2}, {2, 3, 2}, {2}},
                       {{2, 2, 3}, {2, 2, 1}, {2, 3, 1}, {2}}},
            .factor = 2});
  add_case({.op = "bilinear",
            .variant = "no bias",
            .call = CALL(bilinear(x[0], x[1], x[2])),
            .oracle = bilinear_oracle,
            .operands = {small, small, small},
            .shapes = {{{2, 3}, {2, 4}, {5, 3, 4}}},
            .factor = 2});
  const auto cross_oracle = [](int from_last) {
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
  };
  add_case({.op = "cross",
            .call = CALL(cross(x[0], x[1])),
            .oracle = cross_oracle(0),
            .operands = {{}, {}},
            .shapes = {{{3}, {3}}, {{2, 3}, {2, 3}}, {{4, 1, 3}, {2, 3}}, {{0, 3}, {3}}}});
  add_case({.op = "cross",
            .variant = "along a named dimension",
            .call = CALL(cross(x[0], x[1], {.dim = 1})),
            .oracle = cross_oracle(1),
            .operands = {{}, {}},
            .shapes = {{{2, 3, 4}, {2, 3, 4}}, {{2, 3, 1}, {3, 4}}}});
  add_case({.op = "prelu",
            .call = CALL(prelu(x[0], x[1])),
            .oracle =
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
            .factor = 2});
});

}  // namespace
