// Indexing ops where the generated tests do not reach: errors, duplicates, in-place forms, integer
// tensors, accumulation, threads.
#include <mezzo.h>

#include <limits>

#include "../support/same_bits.h"
#include "../support/throws.h"
#include "support.h"

using namespace mezzo;
using testing::same_bits;

namespace {

bool same_values(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         a.to_vector<double>() == b.to_vector<double>();
}

/** Returns irregular deterministic values in [-1, 1). */
Tensor scattered_values(const Shape& shape, DType dtype = f32) {
  std::uint64_t state = 1;
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    values.push_back(static_cast<double>(state >> 40) * 0x1p-23 - 1);
  }
  return tensor(values, shape, {.dtype = dtype});
}

}  // namespace

TEST_CASE("cat skips empty vectors, promotes, and gives each operand its slice of the gradient") {
  const Tensor a = counting({2, 2}).requires_grad_(), none = zeros({0}).requires_grad_(),
               b = counting({1, 2}, f64).requires_grad_();
  const Tensor y = cat({none, a, b});
  CHECK(y.dtype() == f64);
  CHECK(y.to_vector<double>() == std::vector<double>{0, 1, 2, 3, 0, 1});
  y.backward(counting({3, 2}, f64));
  CHECK(a.grad().dtype() == f32);
  CHECK(a.grad().to_vector<double>() == std::vector<double>{0, 1, 2, 3});
  CHECK(none.grad().shape() == Shape{0});
  CHECK(b.grad().to_vector<double>() == std::vector<double>{4, 5});
  CHECK(same_values(cat({zeros({0}), zeros({0})}), zeros({0})));
  CHECK(cat({ints({1}), ints({2}, i32), ones({1}, {.dtype = boolean})}).dtype() == i64);
  CHECK(cat({ones({1}, {.dtype = f16}), ones({1}, {.dtype = bf16})}).dtype() == f32);
}

TEST_CASE("joining rejects mismatched operands") {
  CHECK_THROWS_WITH_AS_TEXT(cat({}), ValueError,
                            "cat: the list of tensors is empty; expected one or more");
  CHECK_THROWS_WITH_AS_TEXT(stack({}), ValueError,
                            "stack: the list of tensors is empty; expected one or more");
  CHECK_THROWS_WITH_AS_TEXT(cat({zeros({2, 3}), zeros({3, 3})}, 1), ShapeError,
                            "cat: shapes do not fit; got f32[2,3]@cpu and f32[3,3]@cpu as operand "
                            "1, expected equal sizes "
                            "except in dimension 1");
  CHECK_THROWS_AS(cat({zeros({2, 3}), zeros({2})}), ShapeError);
  CHECK_THROWS_AS(cat({zeros({2, 3}), zeros({0, 2})}, 0), ShapeError);
  CHECK_THROWS_AS(cat({zeros({})}), ShapeError);
  CHECK_THROWS_AS(cat({zeros({2})}, 1), IndexError);
  CHECK_THROWS_AS(cat({zeros({2}), Tensor{}}), ValueError);
  CHECK_THROWS_AS(stack({zeros({2}), zeros({3})}), ShapeError);
  CHECK_THROWS_AS(stack({zeros({2}), zeros({2})}, 2), IndexError);
}

TEST_CASE("an index out of range is reported with position and value before anything is written") {
  const Tensor x = counting({3, 4}), before = x.clone();
  const std::uint32_t version = x.version();
  CHECK_THROWS_WITH_AS_TEXT(gather(x, 0, ints({0, 2, 3, 9}, {2, 2})), IndexError,
                            "gather: index out of range; got 3 at index[1,0] into dimension 0 of "
                            "f32[3,4]@cpu, expected 0..2");
  CHECK_THROWS_WITH_AS_TEXT(gather(x, 1, ints({0, -1}, {1, 2})), IndexError,
                            "gather: index out of range; got -1 at index[0,1] into dimension 1 of "
                            "f32[3,4]@cpu, expected 0..3");
  CHECK_THROWS_WITH_AS_TEXT(index_select(x, 1, ints({0, 4})), IndexError,
                            "index_select: index out of range; got 4 at index[1]");
  CHECK_THROWS_WITH_AS_TEXT(embedding(ints({2, 3}), x), IndexError,
                            "embedding: index out of range; got 3 at index[1]");
  CHECK_THROWS_WITH_AS_TEXT(index(x, {ints({-4})}), IndexError,
                            "index: index out of range; got -4 at index[0] into dimension 0 of "
                            "f32[3,4]@cpu, expected -3..2");
  CHECK_THROWS_AS(index_add_(x, 0, ints({0, 3}), ones({2, 4})), IndexError);
  CHECK_THROWS_AS(scatter_(x, 0, ints({0, 3}, {1, 2}), 5.0), IndexError);
  CHECK_THROWS_AS(scatter_add_(x, 0, ints({0, 3}, {1, 2}), ones({1, 2})), IndexError);
  CHECK_THROWS_AS(index_put_(x, {ints({0, 3})}, ones({4})), IndexError);
  CHECK_THROWS_AS(index_put_(x, {ints({0, 3})}, ones({4}), {.accumulate = true}), IndexError);
  CHECK(same_values(x, before));
  CHECK(x.version() == version);
  CHECK_THROWS_WITH_AS_TEXT(gather(zeros({0, 2}), 0, ints({0, 0}, {1, 2})), IndexError,
                            "the dimension is empty");
  CHECK_THROWS_AS(index_select(x, 0, ints({std::numeric_limits<double>::infinity()})), IndexError);
}

TEST_CASE("indexing rejects wrong dtypes and shapes") {
  const Tensor x = counting({3, 4});
  CHECK_THROWS_WITH_AS_TEXT(
      gather(x, 0, zeros({1, 4})), DtypeError,
      "gather: indices must be integers; got f32[1,4]@cpu, expected i64 or i32; use index.to(i64)");
  CHECK_THROWS_AS(embedding(zeros({2}), x), DtypeError);
  CHECK_THROWS_AS(index(x, {zeros({2})}), DtypeError);
  CHECK_THROWS_AS(index_select(x, 0, Tensor{}), ValueError);
  CHECK_THROWS_AS(gather(x, 2, ints({0}, {1, 1})), IndexError);
  CHECK_THROWS_AS(gather(x, 0, ints({0})), ShapeError);
  CHECK_THROWS_AS(gather(x, 0, ints({0, 0, 0, 0, 0}, {1, 5})), ShapeError);
  CHECK_THROWS_AS(scatter(x, 0, ints({0}, {1, 1}), ones({1, 1}, {.dtype = f16})), DtypeError);
  CHECK_THROWS_AS(scatter(x, 0, ints({0, 0}, {1, 2}), ones({1, 1})), ShapeError);
  CHECK_THROWS_AS(index_select(x, 0, ints({0}, {1, 1})), ShapeError);
  CHECK_THROWS_AS(index_add(x, 0, ints({0}), ones({4})), ShapeError);
  CHECK_THROWS_AS(index_add(x, 0, ints({0}), ones({1, 4}, {.dtype = f16})), DtypeError);
  CHECK_THROWS_AS(index_add(counting({3}, i64), 0, ints({0}), ints({1}), {.alpha = 0.5}),
                  ValueError);
  CHECK_THROWS_AS(index(x, {}), ValueError);
  CHECK_THROWS_AS(index(x, {Tensor{}, Tensor{}}), ValueError);
  CHECK_THROWS_AS(index(x, {ints({0}), ints({0}), ints({0})}), ShapeError);
  CHECK_THROWS_AS(index(x, {ints({0, 1}), ints({0, 1, 2})}), ShapeError);
  CHECK_THROWS_AS(index(x, {zeros({4}, {.dtype = boolean})}), ShapeError);
  CHECK_THROWS_AS(index_put(x, {ints({0, 1})}, ones({3, 4})), ShapeError);
  CHECK_THROWS_AS(masked_select(x, ones({3, 4})), DtypeError);
  CHECK_THROWS_AS(masked_select(x, ones({5}, {.dtype = boolean})), ShapeError);
  CHECK_THROWS_AS(embedding(ints({0}), ones({4})), ShapeError);
  CHECK_THROWS_AS(embedding(ints({0}), x, {.padding_idx = 3}), ValueError);
  CHECK_THROWS_AS(embedding(ints({0}), x, {.padding_idx = -4}), ValueError);
  CHECK_THROWS_AS(take_along_dim(x, ints({0}), 1), ShapeError);
}

TEST_CASE("of several writes to one element the last in index order wins") {
  CHECK(scatter(zeros({3}), 0, ints({1, 2, 1}), tensor({5., 6, 7})).to_vector<double>() ==
        std::vector<double>{0, 7, 6});
  CHECK(index_put(zeros({3}), {ints({1, -1, 1})}, tensor({5., 6, 7})).to_vector<double>() ==
        std::vector<double>{0, 7, 6});
  CHECK(
      index_put(zeros({2, 2}), {ints({1, 1})}, tensor({5., 6, 7, 8}, {2, 2})).to_vector<double>() ==
      std::vector<double>{0, 0, 7, 8});
}

TEST_CASE("integer and bool tensors are indexed in their own dtype") {
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    const Tensor x = tensor({1, 0, 1, 1, 0, 0}, {2, 3}, {.dtype = dtype});
    CHECK(
        same_values(gather(x, 1, ints({2, 1}, {2, 1})), tensor({1, 0}, {2, 1}, {.dtype = dtype})));
    CHECK(same_values(index_select(x, 0, ints({1}, i32)),
                      tensor({1, 0, 0}, {1, 3}, {.dtype = dtype})));
    CHECK(same_values(index(x, {ints({-1})}), tensor({1, 0, 0}, {1, 3}, {.dtype = dtype})));
    CHECK(same_values(cat({x, x}, 1).narrow(1, 3, 3), x));
    CHECK(same_values(scatter(x, 0, ints({1}, {1, 1}), 1),
                      tensor({1, 0, 1, 1, 0, 0}, {2, 3}, {.dtype = dtype})));
    CHECK(same_values(masked_select(x, x.to(boolean)), ones({3}, {.dtype = dtype})));
    CHECK(nonzero(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0, 0, 2, 1, 0});
    CHECK(sort(x).values.to_vector<double>() == std::vector<double>{0, 1, 1, 0, 0, 1});
  }
  CHECK(scatter_add(counting({2}, i64), 0, ints({1, 1, 1}), ints({5, 6, 7})).to_vector<double>() ==
        std::vector<double>{0, 19});
  CHECK(index_add(counting({2}, i32), 0, ints({1, 1}), ints({5, 6}, i32), {.alpha = 2})
            .to_vector<double>() == std::vector<double>{0, 23});
}

TEST_CASE("sums of 16-bit values accumulate in f32 and round once") {
  // 2048 + 1 is not representable in f16: added one by one in f16, the ones would vanish.
  for (const DType dtype : {f16, bf16}) {
    const double large = dtype == f16 ? 2048 : 256;
    const Tensor x = full({1, 3}, large, {.dtype = dtype}), index = zeros({64}, {.dtype = i64}),
                 src = ones({64, 3}, {.dtype = dtype});
    const Tensor expected = full({1, 3}, large + 64, {.dtype = dtype});
    CHECK(same_values(index_add(x, 0, index, src), expected));
    CHECK(same_values(scatter_add(x, 0, index.unsqueeze(1).expand({64, 3}), src), expected));
    CHECK(same_values(index_put(x, {index}, src, {.accumulate = true}), expected));
    const Tensor weight = zeros({2, 3}, {.dtype = dtype}).requires_grad_();
    const Tensor last = zeros({65}, {.dtype = i64});
    const Tensor g = cat({full({1, 3}, large, {.dtype = dtype}), src});
    embedding(last, weight).backward(g);
    CHECK(same_values(weight.grad().narrow(0, 0, 1), expected));
    CHECK(weight.grad().dtype() == dtype);
    const Tensor table = zeros({1, 3}, {.dtype = dtype}).requires_grad_();
    gather(table, 0, last.unsqueeze(1).expand({65, 3})).backward(g);
    CHECK(same_values(table.grad(), expected));
  }
}

TEST_CASE("in-place forms write self's dtype, bump the version and are recorded in the graph") {
  const Tensor x = zeros({3}, {.dtype = f16});
  const std::uint32_t before = x.version();
  CHECK(scatter_add_(x, 0, ints({0, 0}), tensor({1, 0.5})).is_same(x));
  CHECK(x.to_vector<double>() == std::vector<double>{1.5, 0, 0});
  index_put_(x, {ints({-1})}, tensor(2.0));
  index_add_(x, 0, ints({1, 1}), ones({2}, {.dtype = f16}), {.alpha = 3});
  scatter_(x, 0, ints({0}), 9.0);
  CHECK(x.to_vector<double>() == std::vector<double>{9, 6, 2});
  CHECK(x.version() == before + 4);
  CHECK(x.dtype() == f16);

  const Tensor leaf = counting({4}).requires_grad_(), values = ones({2}).requires_grad_();
  const Tensor y = leaf * 1.0;
  index_put_(y, {ints({1, 3})}, values);
  scatter_add_(y, 0, ints({0, 0}), values * 2.0);
  sum(y * counting({4})).backward();
  CHECK(leaf.grad().to_vector<double>() == std::vector<double>{0, 0, 2, 0});
  CHECK(values.grad().to_vector<double>() == std::vector<double>{1, 3});
}

TEST_CASE("a source that overlaps the destination behaves like a copy") {
  const Tensor x = counting({4});
  scatter_(x, 0, ints({3, 2, 1, 0}), x);
  CHECK(x.to_vector<double>() == std::vector<double>{3, 2, 1, 0});
  const Tensor y = counting({4});
  index_add_(y, 0, ints({1, 2, 3}), y.narrow(0, 0, 3));
  CHECK(y.to_vector<double>() == std::vector<double>{0, 1, 3, 5});
  const Tensor z = counting({2, 2});
  index_put_(z, {ints({1, 0})}, z);
  CHECK(z.to_vector<double>() == std::vector<double>{2, 3, 0, 1});
}

TEST_CASE("embedding: the padding row gets no gradient; scale_grad_by_freq divides") {
  const Tensor weight = counting({4, 2}, f64).requires_grad_(),
               index = ints({1, 3, 1, 0, 1, 3}, {2, 3});
  const auto gradient = [&](const EmbeddingOptions& options) {
    weight.set_grad({});
    embedding(index, weight, options).backward(ones({2, 3, 2}, {.dtype = f64}));
    return weight.grad().select(1, 0).to_vector<double>();
  };
  CHECK(gradient({}) == std::vector<double>{1, 3, 0, 2});
  CHECK(gradient({.padding_idx = -3}) == std::vector<double>{1, 0, 0, 2});
  CHECK(gradient({.scale_grad_by_freq = true}) == std::vector<double>{1, 1, 0, 1});
  CHECK(gradient({.padding_idx = 3, .scale_grad_by_freq = true}) ==
        std::vector<double>{1, 1, 0, 0});
}

TEST_CASE("embedding with padding and scale_grad_by_freq has the right second derivative") {
  const Tensor weight = scattered_values({4, 2}, f64).requires_grad_(), index = ints({1, 3, 1, 0});
  for (const bool by_frequency : {false, true}) {
    const Tensor seed = scattered_values({4, 2}, f64).requires_grad_();
    const Tensor y =
        embedding(index, weight, {.padding_idx = 0, .scale_grad_by_freq = by_frequency});
    const Tensor g = grad(y, weight, {.create_graph = true}, seed);
    const Tensor direction = scattered_values({4, 2}, f64) + 2.0;
    const Tensor back = grad(g, seed, {}, direction);
    // g is linear in the seed: its row i is the direction at index[i] times the factor of that
    // row.
    const std::vector<double> counts{1, 2, 0, 1};
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto row = index.to_vector<std::int64_t>()[static_cast<std::size_t>(i)];
      const double factor = row == 0       ? 0
                            : by_frequency ? 1 / counts[static_cast<std::size_t>(row)]
                                           : 1;
      for (std::int64_t j = 0; j < 2; ++j)
        CHECK(back[i][j].item<double>() == Approx(factor * direction[row][j].item<double>()));
    }
  }
}

TEST_CASE("sorting: nan is largest, zeros are equal, ties keep the order of indices") {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Tensor x = tensor({0.0, nan, -0.0, inf, -inf, 1, 0.0, -nan, 1}, {.dtype = dtype});
    CHECK(argsort(x).to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{4, 0, 2, 6, 5, 8, 3, 1, 7});
    CHECK(argsort(x, {.descending = true}).to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{1, 7, 3, 5, 8, 0, 2, 6, 4});
    CHECK(topk(x, 4).indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 7, 3, 5});
    CHECK(topk(x, 4, {.sorted = false}).indices.to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{1, 3, 5, 7});
    CHECK(topk(x, 2, {.largest = false}).indices.to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{4, 0});
    CHECK(kthvalue(x, 4).indices.item<std::int64_t>() == 6);
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Tensor wide = zeros({3}, {.dtype = i64});
  wide.data<std::int64_t>()[0] = most;
  wide.data<std::int64_t>()[1] = -most - 1;
  CHECK(argsort(wide).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 0});
}

TEST_CASE("topk and kthvalue reject a k out of range") {
  const Tensor x = counting({3});
  CHECK_THROWS_WITH_AS_TEXT(
      topk(x, 4), ValueError,
      "topk: k is out of range; got k = 4 along dimension 0 of f32[3]@cpu, expected 0..3");
  CHECK_THROWS_AS(topk(x, -1), ValueError);
  CHECK_THROWS_AS(kthvalue(x, 0), ValueError);
  CHECK_THROWS_AS(kthvalue(zeros({0}), 1), ValueError);
  CHECK_THROWS_AS(sort(x, {.dim = 1}), IndexError);
  CHECK(topk(x, 0).values.shape() == Shape{0});
  CHECK(topk(zeros({}), 0).values.numel() == 0);
}

TEST_CASE("indexing gives the same bits for any number of threads") {
  const int threads = num_threads();
  const Tensor x = scattered_values({700, 90}), g = scattered_values({5000, 90});
  std::vector<double> rows, columns;
  for (int i = 0; i < 5000; ++i) rows.push_back(i * 7919 % 700 % (i % 13 + 1));
  for (int i = 0; i < 5000 * 90; ++i) columns.push_back(i * 31 % 700);
  const Tensor row_index = ints(rows), element_index = ints(columns, {5000, 90});
  const auto all = [&] {
    const Tensor weight = x.detach().requires_grad_();
    embedding(row_index, weight).backward(g);
    return std::vector<Tensor>{weight.grad(),
                               index_add(x, 0, row_index, g),
                               index_put(x, {row_index}, g, {.accumulate = true}),
                               index_put(x, {row_index}, g),
                               scatter_add(x, 0, element_index, g),
                               scatter(x, 0, element_index, g),
                               gather(x, 0, element_index),
                               cat({x, g, x}),
                               sort(g, {.dim = 0}).values,
                               topk(g, 5).indices};
  };
  set_num_threads(1);
  const std::vector<Tensor> expected = all();
  for (const int n : {2, 4, 8}) {
    set_num_threads(n);
    const std::vector<Tensor> got = all();
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("result " << i << " with " << n << " threads");
      CHECK(same_bits(got[i], expected[i]));
    }
  }
  set_num_threads(threads);
}
