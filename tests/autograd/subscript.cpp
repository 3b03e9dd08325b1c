// x[{...}], x.index({...}), assignment to them, and rows in a for loop.
#include <mezzo.h>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

TEST_CASE("numbers, slices, None and Ellipsis select views as in Python", "[subscript]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x[{1, 2, 3}].item() == 23);
  CHECK(x[{-1, -1, -1}].item() == 23);
  CHECK(x[{Slice(), 0}].shape() == Shape{2, 4});
  CHECK(values(x[{0, Slice(1, None), Slice(None, 2)}]) == std::vector<double>{4, 5, 8, 9});
  CHECK(values(x[{Slice(0, 2), -1, Slice(None, None, 2)}]) == std::vector<double>{8, 10, 20, 22});
  CHECK(values(x[{0, Slice(-2, -1), 0}]) == std::vector<double>{4});
  CHECK(x[{Slice(0, 1), None, -1}].shape() == Shape{1, 1, 4});
  CHECK(x[None].shape() == Shape{1, 2, 3, 4});
  CHECK(values(x[{Ellipsis, 1}]) == std::vector<double>{1, 5, 9, 13, 17, 21});
  CHECK(x[{None, Ellipsis, None}].shape() == Shape{1, 2, 3, 4, 1});
  CHECK(x[{0, Ellipsis, 0}].shape() == Shape{3});
  CHECK(x[{1, 2, 3, Ellipsis}].shape() == Shape{});
  CHECK(x[Slice(5, None)].shape() == Shape{0, 3, 4});
  CHECK(x[Slice(1)].is_same(x) == false);
  CHECK(x[Slice(1)].impl()->storage.get() == x.impl()->storage.get());
  CHECK(x[std::size_t{1}].shape() == Shape{3, 4});
}

TEST_CASE("tensors of indices and masks select as mezzo::index does", "[subscript]") {
  const Tensor x = counting({2, 3, 4});
  const Tensor rows = tensor({2, 0}, {.dtype = i64}), pair = tensor({1, 0}, {.dtype = i64});
  CHECK(same_dense_layout(x[{Slice(), rows}], index(x, {Tensor(), rows})));
  CHECK(values(x[{Slice(), rows}]) == values(index(x, {Tensor(), rows})));
  CHECK(values(x[{0, rows}]) == values(index(x[0], {rows})));
  CHECK(values(x[{Ellipsis, pair}]) == values(index(x, {Tensor(), Tensor(), pair})));
  CHECK(values(x[{None, pair, rows}]) == values(index(x.unsqueeze(0), {Tensor(), pair, rows})));
  const Tensor mask = x % 5 == 0;
  CHECK(values(x[mask]) == std::vector<double>{0, 5, 10, 15, 20});
  const Tensor matrix_mask = tensor({{1, 0, 0}, {0, 0, 1}}, {.dtype = boolean});
  CHECK(values(x[{matrix_mask, 0}]) == std::vector<double>{0, 20});
  CHECK(values(x[{matrix_mask, Slice(2, None)}]) == std::vector<double>{2, 3, 22, 23});
}

TEST_CASE("assignments through subscripts write to the tensor", "[subscript]") {
  Tensor x = zeros({2, 3});
  x[0] = 1.5;
  x[{1, Slice(1, None)}] = tensor({2., 3});
  CHECK(values(x) == std::vector<double>{1.5, 1.5, 1.5, 0, 2, 3});
  x[{Slice(), 0}] = tensor({7., 8});
  x[1][2] = 9;
  CHECK(values(x) == std::vector<double>{7, 1.5, 1.5, 8, 2, 9});
  x.index_put_({x > 7}, 0).index_put_({Ellipsis, 1}, 4);
  CHECK(values(x) == std::vector<double>{7, 4, 1.5, 0, 4, 0});
  x.index_put_({0, Slice(0, 2)}, ones({2}), true);
  x.index_put_({tensor({1, 1}, {.dtype = i64}), 2}, 10, true);
  CHECK(values(x) == std::vector<double>{8, 5, 1.5, 0, 4, 20});
  x[0] += 1;
  x[{Slice(), 1}] *= 2;
  CHECK(values(x) == std::vector<double>{9, 12, 2.5, 0, 8, 20});
  x.transpose(0, 1) = zeros({3, 2});
  CHECK(values(x) == std::vector<double>(6, 0));
}

TEST_CASE("assignments through subscripts are recorded", "[subscript]") {
  const Tensor x = ones({3}).requires_grad_(), v = tensor({2.0}).requires_grad_();
  const Tensor y = x * 3;
  y[{Slice(0, 1)}] = v;
  (y * tensor({10.0, 20.0, 30.0})).sum().backward();
  CHECK(values(x.grad()) == std::vector<double>{0, 60, 90});
  CHECK(values(v.grad()) == std::vector<double>{10});
}

TEST_CASE("wrong subscripts say what is wrong", "[subscript]") {
  const Tensor x = counting({2, 3, 4});
  CHECK_THROWS_WITH_AS_TEXT((x[{0, 0, 0, 0}]), IndexError, "more indices than dimensions");
  CHECK_THROWS_WITH_AS_TEXT((x[{Ellipsis, Ellipsis}]), IndexError, "Slice() for a dimension");
  CHECK_THROWS_WITH_AS_TEXT((x[{0, 3}]), IndexError, "3");
  CHECK_THROWS_WITH_AS_TEXT((x[Slice(None, None, -1)]), ValueError, "step");
  CHECK_THROWS_WITH_AS_TEXT((x[{tensor({5}, {.dtype = i64})}]), IndexError, "5");
  CHECK_THROWS_WITH_AS_TEXT((x[{zeros({2})}]), DtypeError, "f32");
  CHECK_THROWS_WITH_AS_TEXT((x[x > 3] = 0), ValueError, "index_put_");
  CHECK_THROWS_WITH_AS_TEXT((relu(x) = x), ValueError, "temporary");
  CHECK_THROWS_WITH_AS_TEXT((x[0] = zeros({5})), ShapeError, "");
  CHECK_THROWS_WITH_AS_TEXT((x[0] = Tensor()), ValueError, "undefined");
}

TEST_CASE("a for loop goes over the rows of a tensor", "[subscript]") {
  const Tensor x = counting({4, 6});
  std::vector<double> sums;
  for (const Tensor& row : x) sums.push_back(row.sum().item());
  CHECK(sums == std::vector<double>{15, 51, 87, 123});
  for (const Tensor& row : x) row.fill_(1);
  CHECK(x.sum().item() == 24);
  int rounds = 0;
  for (const Tensor& row : zeros({0, 3})) rounds += row.dim();
  CHECK(rounds == 0);
  CHECK_THROWS_WITH_AS_TEXT(tensor(1.0).begin(), ShapeError, "no rows");
}

TEST_CASE("item without a type is a double", "[subscript]") {
  CHECK(tensor(2.5).item() == 2.5);
  const float loss = static_cast<float>(tensor({0.25}).item());
  CHECK(loss == 0.25F);
  CHECK(tensor(std::int64_t{1} << 53, {.dtype = i64}).item() == 9007199254740992.0);
  CHECK_THROWS_WITH_AS_TEXT(tensor((std::int64_t{1} << 53) + 1, {.dtype = i64}).item(), ValueError,
                            "item<std::int64_t>()");
  CHECK_THROWS_WITH_AS_TEXT(zeros({2}).item(), ShapeError, "one element");
  CHECK_THROWS_WITH_AS_TEXT(Tensor().item(), ValueError, "undefined");
}
