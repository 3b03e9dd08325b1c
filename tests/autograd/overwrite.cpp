// Overwriting ops, unique, cumulative extremes and medians where the generated tests do not reach.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using List = std::vector<double>;

}  // namespace

TEST_CASE("of several rows copied to one index the last wins") {
  CHECK(values(index_copy(zeros({3}), 0, ints({1, 1, 0}), tensor({5.0, 6.0, 7.0}))) ==
        List{7, 6, 0});
  CHECK(values(index_copy(ints({1, 2, 3}), 0, ints({2}, i32), ints({9}))) == List{1, 2, 9});
  CHECK(values(index_copy(tensor(1.0), 0, ints({0}), tensor(4.0))) == List{4});
  const Tensor x = ones({3}), self = x.clone();
  CHECK(values(index_copy_(self, 0, ints({0, 1}), self.narrow(0, 1, 2) * 2)) == List{2, 2, 1});
}

TEST_CASE("overwriting ops check all arguments before they write") {
  const Tensor x = ones({3, 2}), before = x.clone();
  const auto version = x.version();
  CHECK_THROWS_WITH_AS_TEXT(index_copy_(x, 0, ints({0, 3}), zeros({2, 2})), IndexError,
                            "index_copy: index out of range; got 3 at index[1] into dimension 0");
  CHECK_THROWS_AS(index_copy_(x, 0, ints({-1}), zeros({1, 2})), IndexError);
  CHECK_THROWS_WITH_AS_TEXT(index_copy(x, 1, ints({0}), zeros({3, 2})), ShapeError,
                            "index_copy: the source does not fit");
  CHECK_THROWS_AS(index_copy(x, 0, ints({0}), zeros({1, 2}, {.dtype = f64})), DtypeError);
  CHECK_THROWS_AS(index_copy(x, 0, zeros({1}), zeros({1, 2})), DtypeError);
  CHECK_THROWS_AS(index_copy(x, 2, ints({0}), zeros({1, 2})), IndexError);
  CHECK_THROWS_AS(index_copy(x, 0, ints({0}), Tensor{}), ValueError);
  CHECK_THROWS_AS(index_fill(x, 0, ints({3}), 1), IndexError);
  CHECK_THROWS_WITH_AS_TEXT(index_fill(x, 0, ints({0}), ones({2})), ShapeError,
                            "index_fill: the value must be a single number");
  CHECK_THROWS_AS(index_fill_(x, 0, zeros({1}), 2.0), DtypeError);
  CHECK_THROWS_WITH_AS_TEXT(masked_scatter(x, ones({3, 2}, {.dtype = boolean}), ones({5})),
                            ShapeError,
                            "masked_scatter: the source has fewer elements than the mask selects");
  CHECK_THROWS_AS(masked_scatter(x, ones({3, 2}), ones({6})), DtypeError);
  CHECK_THROWS_AS(masked_scatter(x, ones({3, 2}, {.dtype = boolean}), ones({6}, {.dtype = f64})),
                  DtypeError);
  CHECK_THROWS_AS(masked_scatter(x, ones({4}, {.dtype = boolean}), ones({6})), ShapeError);
  CHECK(values(x) == values(before));
  CHECK(x.version() == version);
}

TEST_CASE("a fill value is converted to the tensor's dtype") {
  CHECK(values(index_fill(ints({1, 2}), 0, ints({0}), 2.9)) == List{2, 2});
  CHECK(index_fill(zeros({2}, {.dtype = f16}), 0, ints({0}), 1.0).dtype() == f16);
}

TEST_CASE("unique: nans are distinct, zeros of both signs are equal, any dtype") {
  const double nan = std::nan("");
  const UniqueResult r =
      unique(tensor({nan, 0.0, -0.0, 1.0, nan}), {.return_inverse = true, .return_counts = true});
  CHECK(r.values.numel() == 4);
  CHECK(values(r.counts) == List{2, 1, 1, 1});
  CHECK(std::isnan(values(r.values)[3]));
  CHECK(values(unique(tensor({1, 0, 1}, {.dtype = boolean})).values) == List{0, 1});
  CHECK(!unique(ints({1})).inverse.defined());
  CHECK(!unique(ints({1})).counts.defined());
  const Tensor x = ones({2}).requires_grad_();
  CHECK(!unique(x).values.requires_grad());
  CHECK_THROWS_AS(unique(Tensor{}), ValueError);
}

TEST_CASE("cummax and cummin propagate nan, sum gradients in f32 and check the dimension") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const ValuesAndIndices r = cummax(tensor({-inf, 1.0, nan, 5.0, nan}), 0);
  CHECK(values(r.indices) == List{0, 1, 2, 2, 4});
  CHECK(std::isnan(values(r.values)[3]));
  CHECK(values(cummin(tensor({-0.0, 0.0, 2.0}), 0).indices) == List{0, 1, 1});
  CHECK(values(cummax(ints({1, 3, 2}, i32), 0).values) == List{1, 3, 3});
  CHECK(cummax(ints({1, 3, 2}, i32), 0).values.dtype() == i32);
  const Tensor x = cat({ones({1}), zeros({2999})}).to(f16).requires_grad_();
  cummax(x, 0).values.backward(ones({3000}, {.dtype = f16}));
  CHECK(values(x.grad())[0] == 3000);
  CHECK_THROWS_WITH_AS_TEXT(cummax(x, 1), IndexError, "cummax");
  CHECK_THROWS_AS(cummin(x, -2), IndexError);
}

TEST_CASE("median is the lower of two middle values, and nan if any element is") {
  CHECK(median(tensor({4.0, 1.0, 3.0, 2.0})).item<double>() == 2);
  CHECK(median(ints({7, 5})).item<double>() == 5);
  CHECK(std::isnan(median(tensor({1.0, std::nan(""), 3.0})).item<double>()));
  CHECK(values(median(tensor({1.0, std::nan(""), 3.0}), 0).indices) == List{1});
  const Tensor x = tensor({1.0, 9.0, 3.0, 4.0}, {2, 2}).requires_grad_();
  sum(median(x, 1).values * 2).backward();
  CHECK(values(x.grad()) == List{2, 0, 2, 0});
  CHECK_THROWS_WITH_AS_TEXT(median(zeros({0})), ShapeError, "median: there is no element");
  CHECK_THROWS_AS(median(zeros({2, 0}), 1), ShapeError);
  CHECK(median(zeros({0, 3}), 1).values.shape() == Shape{0});
  CHECK_THROWS_AS(median(x, 2), IndexError);
}

TEST_CASE("in-place dropout drops the same elements as dropout") {
  const Tensor x = tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}).requires_grad_();
  manual_seed(5);
  const Tensor y = dropout(x, {.p = 0.4});
  manual_seed(5);
  const Tensor z = x * 1;
  dropout_(z, {.p = 0.4});
  CHECK(values(y) == values(z));
  sum(y).backward();
  const List expected = values(x.grad());
  x.set_grad({});
  sum(z).backward();
  CHECK(values(x.grad()) == expected);
  CHECK(values(dropout_(ones({3}), {.p = 1})) == List{0, 0, 0});
  CHECK(values(dropout_(ones({3}), {.p = 0.5, .training = false})) == List{1, 1, 1});
  CHECK_THROWS_AS(dropout_(ones({3}), {.p = 2}), ValueError);
  CHECK_THROWS_AS(dropout_(ints({3})), DtypeError);
}
