// Rows of products, attention and recurrent layers.
#include <algorithm>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** A few letters with sizes, so that the sizes that a product requires to be equal often are. */
struct Letters {
  explicit Letters(Draw& draw) : d(draw) {
    for (std::int64_t& size : n) size = d.chance(0.05) ? 0 : 1 + d.below(5);
  }
  Tensor operator()(std::initializer_list<int> letters) {
    if (d.chance(0.07)) return d.tensor();
    Shape shape;
    for (const int i : letters) shape.push_back(n[i]);
    return d.tensor(shape, dtype);
  }
  Draw& d;
  DType dtype = d.floating();
  std::int64_t n[6];
};

std::optional<Sizes> product(const Tensor& a, const Tensor& b) {
  Sizes x = sizes(a), y = sizes(b);
  if (x.empty() || y.empty()) return std::nullopt;
  const bool row = x.size() == 1, column = y.size() == 1;
  if (row) x.insert(x.begin(), 1);
  if (column) y.push_back(1);
  if (x.back() != y[y.size() - 2]) return std::nullopt;
  const Wide m = x[x.size() - 2], n = y.back();
  x.resize(x.size() - 2);
  y.resize(y.size() - 2);
  auto shape = broadcast(x, y);
  if (shape && !row) shape->push_back(m);
  if (shape && !column) shape->push_back(n);
  return shape;
}

Expected product_of_rank(const Tensor& a, int left, const Tensor& b, int right) {
  if (a.dim() != left || b.dim() != right) return refused();
  if (left == 3 && a.shape()[0] != b.shape()[0]) return refused();
  return gives(product(a, b));
}

AddmmOptions factors(Draw& d) { return {.beta = d.flag() ? 0 : d.real(), .alpha = d.real()}; }

/** Returns the shape of beta c + alpha product, where c broadcasts to the product. */
Expected added(const Tensor& c, const Expected& product) {
  if (!product) return product;
  const auto whole = broadcast(sizes(c), (*product)[0]);
  return whole && *whole == (*product)[0] ? product : refused();
}

Tensor addend(Draw& d, Letters& sizes, std::initializer_list<int> letters) {
  const Tensor c = sizes(letters);
  return d.flag() ? c : d.tensor(d.like(c.shape()), c.dtype());
}

const Rows products([] {
  add_row("matmul", [](Draw& d) {
    Letters s(d);
    const Tensor a = d.flag() ? s({0, 1, 2}) : s({1, 2}), b = d.flag()   ? s({0, 2, 3})
                                                              : d.flag() ? s({2, 3})
                                                                         : s({2});
    return Trial{[=] { return list(matmul(a, b)); }, gives(product(a, b))};
  });
  add_row("mm", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({1, 2}), b = s({2, 3});
    return Trial{[=] { return list(mm(a, b)); }, product_of_rank(a, 2, b, 2)};
  });
  add_row("bmm", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1, 2}), b = s({0, 2, 3});
    return Trial{[=] { return list(bmm(a, b)); }, product_of_rank(a, 3, b, 3)};
  });
  add_row("mv", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({1, 2}), b = s({2});
    return Trial{[=] { return list(mv(a, b)); }, product_of_rank(a, 2, b, 1)};
  });
  add_row("dot", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({2}), b = s({2});
    return Trial{[=] { return list(dot(a, b)); }, product_of_rank(a, 1, b, 1)};
  });
  add_row("vecdot", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1, 2}), b = d.flag() ? s({0, 1, 2}) : s({2});
    const bool fits = a.dim() > 0 && b.dim() > 0 && a.size(-1) == b.size(-1);
    auto shape = broadcast(sizes(a), sizes(b));
    if (shape && fits) shape->pop_back();
    return Trial{[=] { return list(vecdot(a, b)); }, fits ? gives(shape) : refused()};
  });
  add_row("linear", [](Draw& d) {
    Letters s(d);
    const Tensor x = d.flag() ? s({0, 1, 2}) : s({2}), w = s({3, 2});
    const Tensor b = d.optional({s.n[3]}, s.dtype);
    Sizes shape = sizes(x);
    const bool fits = x.dim() > 0 && w.dim() == 2 && shape.back() == w.shape()[1];
    if (fits) shape.back() = w.shape()[0];
    return Trial{[=] { return list(linear(x, w, b)); }, fits ? gives(shape) : refused()};
  });
  add_row("mlp", [](Draw& d) {
    Letters s(d);
    const Tensor x = s({0, 2}), w = s({3, 2}), v = s({1, 3});
    const bool biased = d.flag();
    const Tensor b = biased ? s({3}) : Tensor{}, c = biased ? s({1}) : Tensor{};
    Sizes shape = sizes(x);
    const bool fits = x.dim() > 0 && w.dim() == 2 && v.dim() == 2 && shape.back() == w.shape()[1] &&
                      w.shape()[0] == v.shape()[1];
    if (fits) shape.back() = v.shape()[0];
    return Trial{[=] {
                   return list(mlp(x, {w, v}, biased ? std::vector{b, c} : std::vector<Tensor>{}));
                 },
                 fits ? gives(shape) : refused()};
  });
  add_row("addmm", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({1, 2}), b = s({2, 3}), c = addend(d, s, {1, 3});
    const AddmmOptions o = factors(d);
    return Trial{[=] { return list(addmm(c, a, b, o)); }, added(c, product_of_rank(a, 2, b, 2))};
  });
  add_row("addmm", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({1, 2}), b = s({2, 3}), c = addend(d, s, {1, 3}).detach();
    const AddmmOptions o = factors(d);
    return Trial{[=] { return list(addmm_(c, a, b, o)); }, added(c, product_of_rank(a, 2, b, 2))};
  });
  add_row("addmv", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({1, 2}), b = s({2}), c = addend(d, s, {1});
    const AddmmOptions o = factors(d);
    return Trial{[=] { return list(addmv(c, a, b, o)); }, added(c, product_of_rank(a, 2, b, 1))};
  });
  add_row("addr", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({1}), b = s({3}), c = addend(d, s, {1, 3});
    const AddmmOptions o = factors(d);
    const bool fits = a.dim() == 1 && b.dim() == 1;
    return Trial{[=] { return list(addr(c, a, b, o)); },
                 fits ? added(c, gives({a.shape()[0], b.shape()[0]})) : refused()};
  });
  add_row("addbmm", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1, 2}), b = s({0, 2, 3}), c = addend(d, s, {1, 3});
    const AddmmOptions o = factors(d);
    Expected sum = product_of_rank(a, 3, b, 3);
    if (sum) (*sum)[0].erase((*sum)[0].begin());
    return Trial{[=] { return list(addbmm(c, a, b, o)); }, added(c, sum)};
  });
  add_row("baddbmm", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1, 2}), b = s({0, 2, 3}), c = addend(d, s, {0, 1, 3});
    const AddmmOptions o = factors(d);
    return Trial{[=] { return list(baddbmm(c, a, b, o)); }, added(c, product_of_rank(a, 3, b, 3))};
  });
  add_row("chain_matmul", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1}), b = s({1, 2}), c = s({2, 3});
    const bool fits = a.dim() == 2 && b.dim() == 2 && c.dim() == 2 &&
                      a.shape()[1] == b.shape()[0] && b.shape()[1] == c.shape()[0];
    return Trial{[=] {
                   return list(chain_matmul({a, b, c}));
                 },
                 fits ? gives({a.shape()[0], c.shape()[1]}) : refused()};
  });
  add_row("multi_dot", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1}), b = s({1, 2}), c = s({2, 3});
    // The first and the last operand may be vectors, whose dimension the result lacks.
    const bool ranks =
        (a.dim() == 1 || a.dim() == 2) && b.dim() == 2 && (c.dim() == 1 || c.dim() == 2);
    const bool fits = ranks && a.size(-1) == b.shape()[0] && b.shape()[1] == c.shape()[0];
    Sizes shape;
    if (fits && a.dim() == 2) shape.push_back(a.shape()[0]);
    if (fits && c.dim() == 2) shape.push_back(c.shape()[1]);
    return Trial{[=] { return list(multi_dot({a, b, c})); }, fits ? gives(shape) : refused()};
  });
  add_row("bilinear", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1}), b = s({0, 2}), w = s({3, 1, 2}),
                 bias = d.optional({s.n[3]}, s.dtype);
    Sizes shape = sizes(a);
    const bool fits = a.dim() > 0 && a.dim() == b.dim() && w.dim() == 3;
    if (fits) shape.back() = w.shape()[0];
    return Trial{[=] { return list(bilinear(a, b, w, bias)); }, fits ? gives(shape) : refused()};
  });
  add_row("cross", [](Draw& d) {
    Shape shape = d.shape(1, 3);
    const std::int64_t dim = d.dim(shape.rank());
    const auto at = resolved(dim, shape.size());
    if (at && d.chance(0.9)) shape[static_cast<std::int64_t>(*at)] = 3;
    const DType dtype = d.dtype();
    const Tensor a = d.tensor(shape, dtype), b = d.tensor(d.like(shape), dtype);
    const auto whole = broadcast(sizes(a), sizes(b));
    return Trial{[=] { return list(cross(a, b, {dim})); },
                 whole && resolved(dim, whole->size()) ? gives(whole) : refused()};
  });
  add_row("einsum", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1, 2}), b = s({2, 3});
    const bool summed = d.flag();
    // Sizes of 1 broadcast, and so do the letters' sizes.
    const bool ranks = a.dim() == 3 && b.dim() == 2;
    const bool meet =
        ranks && (a.shape()[2] == b.shape()[0] || a.shape()[2] == 1 || b.shape()[0] == 1);
    const Sizes whole = ranks ? Sizes{a.shape()[0], a.shape()[1], b.shape()[1]} : Sizes{};
    return Trial{[=] {
                   return list(einsum(summed ? "abc,cd->bd" : "abc,cd", {a, b}));
                 },
                 !meet    ? refused()
                 : summed ? gives({whole[1], whole[2]})
                          : gives(whole)};
  });
  add_row("tensordot", [](Draw& d) {
    Letters s(d);
    const Tensor a = s({0, 1, 2}), b = s({1, 2, 3});
    const std::int64_t n = d.number(0, 3);
    const bool listed = d.chance(0.3);
    const std::vector<std::int64_t> first = d.numbers(2, -3, 2), second = d.numbers(2, -3, 2);
    Sizes shape;
    bool fits = true;
    if (listed) {
      const auto left = reduced(sizes(a), first, false), right = reduced(sizes(b), second, false);
      fits = first.size() == second.size() && left && right;
      if (fits) shape = first.empty() ? sizes(a) : *left;
      const Sizes rest = second.empty() ? sizes(b) : right ? *right : Sizes{};
      shape.insert(shape.end(), rest.begin(), rest.end());
    } else {
      fits = n >= 0 && n <= std::min(a.dim(), b.dim());
      for (int i = 0; fits && i < a.dim() - n; ++i) shape.push_back(a.shape()[i]);
      for (std::int64_t i = n; fits && i < b.dim(); ++i) shape.push_back(b.shape()[i]);
    }
    return Trial{
        [=] {
          return list(tensordot(a, b, listed ? TensordotDims(first, second) : TensordotDims(n)));
        },
        fits ? gives(shape) : refused()};
  });
  add_row("prelu", [](Draw& d) {
    const Tensor x = d.floats(0, 4);
    const std::int64_t channels = x.dim() >= 2 ? x.shape()[1] : 1;
    const Tensor w = d.tensor(d.flag() ? Shape{1} : Shape{channels}, x.dtype());
    return Trial{[=] { return list(prelu(x, w)); }, gives(sizes(x))};
  });
  add_row("scaled_dot_product_attention", [](Draw& d) {
    Letters s(d);
    const bool heads = d.flag();
    const Tensor q = heads ? s({0, 5, 1, 4}) : s({0, 1, 4}),
                 k = heads ? s({0, 5, 2, 4}) : s({2, 4}),
                 v = heads ? s({0, 5, 2, 3}) : s({0, 2, 3});
    AttentionOptions options;
    options.is_causal = d.flag();
    if (d.flag()) options.mask = d.tensor({s.n[1], s.n[2]}, d.flag() ? DType::boolean : s.dtype);
    if (d.chance(0.3)) options.dropout_p = d.real(-0.2, 1.2);
    if (d.flag()) options.scale = d.real();
    Expected expected = refused();
    if (q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2 && q.size(-1) == k.size(-1) &&
        k.size(-2) == v.size(-2)) {
      Sizes lead[3];
      int i = 0;
      for (const Tensor& x : {q, k, v}) {
        lead[i] = sizes(x);
        lead[i].resize(lead[i].size() - 2);
        ++i;
      }
      if (auto shape = broadcast(broadcast(lead[0], lead[1]), lead[2])) {
        shape->push_back(q.size(-2));
        shape->push_back(v.size(-1));
        expected = gives(shape);
      }
    }
    return Trial{[=] { return list(scaled_dot_product_attention(q, k, v, options)); }, expected};
  });
});

// ---- recurrent ----------------------------------------------------------------------------------

struct Recurrence {
  Tensor x, h, c;
  std::vector<RecurrentWeights> weights;
  RecurrentOptions options;
  std::int64_t batch, hidden;
};

Recurrence recurrence(Draw& d, std::int64_t gates, bool cell) {
  Recurrence r;
  Letters s(d);
  const std::int64_t in = s.n[2], layers = cell ? 1 : 1 + d.below(2);
  r.batch = s.n[1];
  r.hidden = s.n[3];
  r.options.batch_first = !cell && d.flag();
  r.options.bidirectional = !cell && d.flag();
  if (d.chance(0.2)) r.options.dropout = d.real(-0.2, 1.2);
  r.x = cell ? s({1, 2}) : r.options.batch_first ? s({1, 0, 2}) : s({0, 1, 2});
  const std::int64_t directions = r.options.bidirectional ? 2 : 1;
  if (!cell && d.chance(0.3))
    for (std::int64_t i = 0; i < r.batch; ++i) r.options.lengths.push_back(d.number(0, s.n[0]));
  for (std::int64_t i = 0; i < layers * directions; ++i) {
    const std::int64_t from = i < directions ? in : directions * r.hidden;
    RecurrentWeights w{d.tensor({gates * r.hidden, from}, s.dtype),
                       d.tensor({gates * r.hidden, r.hidden}, s.dtype)};
    w.bias_ih = d.optional({gates * r.hidden}, s.dtype);
    w.bias_hh = d.optional({gates * r.hidden}, s.dtype);
    r.weights.push_back(w);
  }
  Shape state{r.batch, r.hidden};
  if (!cell) state.insert(0, layers * directions);
  r.h = d.optional(state, s.dtype);
  r.c = d.optional(state, s.dtype);
  return r;
}

/** Returns the shapes of the output and the last states. */
Expected recurrent_results(const Recurrence& r, int states) {
  if (r.x.dim() != 3) return refused();
  Sizes output = sizes(r.x);
  output.back() = Wide{r.hidden} * (r.options.bidirectional ? 2 : 1);
  std::vector<Sizes> all{output};
  const Wide batch = r.x.shape()[r.options.batch_first ? 0 : 1];
  for (int i = 0; i < states; ++i)
    all.push_back({static_cast<Wide>(r.weights.size()), batch, r.hidden});
  return all;
}

Expected cell_results(const Recurrence& r, int states) {
  if (r.x.dim() != 2) return refused();
  return std::vector<Sizes>(static_cast<std::size_t>(states), {r.x.shape()[0], r.hidden});
}

using Layers = RecurrentResult (*)(const Tensor&, const Tensor&,
                                   const std::vector<RecurrentWeights>&, const RecurrentOptions&);
using Cell = Tensor (*)(const Tensor&, const Tensor&, const RecurrentWeights&);

template <Layers f, int kGates> Trial layers(Draw& d) {
  const Recurrence r = recurrence(d, kGates, false);
  return {[=] {
            const RecurrentResult y = f(r.x, r.h, r.weights, r.options);
            return std::vector{y.output, y.h};
          },
          recurrent_results(r, 1)};
}

template <Cell f, int kGates> Trial cell(Draw& d) {
  const Recurrence r = recurrence(d, kGates, true);
  return {[=] { return list(f(r.x, r.h, r.weights[0])); }, cell_results(r, 1)};
}

const Rows recurrent([] {
  add_row("rnn_tanh", layers<rnn_tanh, 1>);
  add_row("rnn_relu", layers<rnn_relu, 1>);
  add_row("gru", layers<gru, 3>);
  add_row("lstm", [](Draw& d) {
    const Recurrence r = recurrence(d, 4, false);
    return Trial{[=] {
                   const LstmResult y = lstm(r.x, {r.h, r.c}, r.weights, r.options);
                   return std::vector{y.output, y.h, y.c};
                 },
                 recurrent_results(r, 2)};
  });
  add_row("rnn_tanh_cell", cell<rnn_tanh_cell, 1>);
  add_row("rnn_relu_cell", cell<rnn_relu_cell, 1>);
  add_row("gru_cell", cell<gru_cell, 3>);
  add_row("lstm_cell", [](Draw& d) {
    const Recurrence r = recurrence(d, 4, true);
    return Trial{[=] {
                   const LstmState y = lstm_cell(r.x, {r.h, r.c}, r.weights[0]);
                   return std::vector{y.h, y.c};
                 },
                 cell_results(r, 2)};
  });
});

}  // namespace
