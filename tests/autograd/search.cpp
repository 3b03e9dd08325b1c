// Looking values up, and the small ops of PyTorch's users, where the generated tests do not reach:
// dtypes, nan, empty tensors, errors.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using List = std::vector<double>;

}  // namespace

TEST_CASE("searchsorted takes every dtype, nan as greatest") {
  for (const DType dtype : {u8, i32, i64, f16, bf16, f32, f64}) {
    const Tensor s = tensor({1, 3, 3, 7}, {.dtype = dtype}),
                 x = tensor({0, 3, 8}, {.dtype = dtype});
    CHECK(values(searchsorted(s, x)) == List{0, 1, 4});
    CHECK(values(searchsorted(s, x, {.right = true})) == List{0, 3, 4});
  }
  CHECK(values(searchsorted(tensor({false, true}), tensor({true, false}))) == List{1, 0});
  const Tensor s = tensor({-kInf, -0.0, 2.0, kNan, kNan});
  CHECK(values(searchsorted(s, tensor({kNan, 1.0, 0.0, kInf}))) == List{3, 2, 1, 3});
  CHECK(values(searchsorted(s, tensor({kNan, 1.0, 0.0, kInf}), {.right = true})) ==
        List{5, 2, 2, 3});
  const std::int64_t big = (std::int64_t{1} << 60) + 1;
  CHECK(searchsorted(tensor({big - 1, big}), tensor({big})).item<int>() == 1);
  CHECK(searchsorted(tensor({1, 3}), 2).item<int>() == 1);
  CHECK(searchsorted(tensor({1, 3}), 1.5).item<int>() == 1);
  CHECK(searchsorted(tensor({1., 3}), 3).shape() == Shape{});
  CHECK(searchsorted(tensor({1, 3}), tensor({2}), {.out_int32 = true}).dtype() == i32);
  CHECK(values(searchsorted(tensor({5, 1, 3}), tensor({2}), {.sorter = tensor({1, 2, 0})})) ==
        List{1});
  const Tensor lines = tensor({{1, 2, 3}, {10, 20, 30}});
  CHECK(values(searchsorted(lines.T().contiguous().T(), tensor({{2, 9}, {2, 25}}))) ==
        List{1, 3, 0, 2});
  CHECK(searchsorted(zeros({0}), ones({2})).to_vector<int>() == std::vector<int>{0, 0});
  CHECK(searchsorted(tensor({1, 2}), tensor({1.5})).item<int>() == 1);
  CHECK(searchsorted(tensor({1.0, 2.0}, {.dtype = f16}), tensor({1.5})).item<int>() == 1);
  CHECK_THROWS_AS(searchsorted(tensor(1), tensor({1})), ShapeError);
  CHECK_THROWS_AS(searchsorted(lines, tensor({1})), ShapeError);
  CHECK_THROWS_AS(searchsorted(tensor({1, 2}), tensor({1}), {.sorter = tensor({0})}), ShapeError);
  CHECK_THROWS_AS(bucketize(tensor({1}), lines), ShapeError);
}

TEST_CASE("isin compares in the promoted dtype, and nan equals nothing") {
  CHECK(values(isin(tensor({1, 2, 3}), tensor({2.0, 2.5}))) == List{0, 1, 0});
  CHECK(values(isin(tensor({kNan, 0.0, kInf}), tensor({kNan, -0.0, kInf}))) == List{0, 1, 1});
  CHECK(values(isin(tensor({1, 2}), tensor({2}), {.invert = true})) == List{1, 0});
  CHECK(values(isin(tensor({1, 2}), zeros({0}), {.invert = true})) == List{1, 1});
  CHECK(isin(zeros({2, 0}), zeros({3})).shape() == Shape{2, 0});
  CHECK(isin(tensor({true}), tensor({1})).dtype() == boolean);
}

TEST_CASE("bincount counts, or adds weights") {
  const Tensor x = tensor({1, 3, 1});
  CHECK(values(bincount(x)) == List{0, 2, 0, 1});
  CHECK(bincount(x).dtype() == i64);
  CHECK(values(bincount(x.to(u8), {.minlength = 6})) == List{0, 2, 0, 1, 0, 0});
  CHECK(bincount(x, {.weights = ones({3})}).dtype() == f32);
  CHECK(bincount(x, {.weights = ones({3}, f16)}).dtype() == f64);
  CHECK(values(bincount(x, {.weights = tensor({1, 2, 3})})) == List{0, 4, 0, 2});
  CHECK(bincount(zeros({0}, i64)).shape() == Shape{0});
  CHECK_THROWS_AS(bincount(tensor({1, -1})), ValueError);
  CHECK_THROWS_AS(bincount(x, {.minlength = -1}), ValueError);
  CHECK_THROWS_AS(bincount(ones({3})), DtypeError);
  CHECK_THROWS_AS(bincount(tensor({{1}})), ShapeError);
  CHECK_THROWS_AS(bincount(x, {.weights = ones({2})}), ShapeError);
}

TEST_CASE("quantile interpolates in f32 and returns nan where there is one") {
  const Tensor x = tensor({{3., 1., 2.}, {kNan, 5., 4.}, {kInf, kInf, 0.}});
  const List median = values(quantile(x, 0.5, {.dim = 1}));
  CHECK(median[0] == 2);
  CHECK(std::isnan(median[1]));
  CHECK(median[2] == kInf);
  CHECK(std::isnan(quantile(x, 0.0).item<double>()));
  CHECK(values(quantile(x[2], 1.0)) == List{kInf});
  CHECK(values(quantile(tensor({1., 2, 3, 4}), tensor({0.0, 0.25, 1.0}))) == List{1, 1.75, 4});
  CHECK(values(quantile(tensor({1., 2}, {.dtype = f16}), 0.3)) ==
        List{tensor({1.3}, {.dtype = f16}).item<double>()});
  CHECK(quantile(x, 0.5, {.keepdim = true}).shape() == Shape{1, 1});
  CHECK(quantile(x, tensor({0.5, 0.1}), {.dim = 0, .keepdim = true}).shape() == Shape{2, 1, 3});
  CHECK(quantile(tensor(2.0), 0.5).item<double>() == 2);
  const Tensor leaf = tensor({4., 1, 3}, {.requires_grad = true});
  quantile(leaf, 0.75).backward();
  CHECK(values(leaf.grad()) == List{0.5, 0, 0.5});
  CHECK_THROWS_AS(quantile(x, 1.5), ValueError);
  CHECK_THROWS_AS(quantile(x, kNan), ValueError);
  CHECK_THROWS_AS(quantile(x, tensor({-0.1})), ValueError);
  CHECK_THROWS_AS(quantile(zeros({0}), 0.5), ValueError);
  CHECK_THROWS_AS(quantile(tensor({1, 2}), 0.5), DtypeError);
  CHECK_THROWS_AS(quantile(x, 0.5, {.dim = 2}), IndexError);
}

TEST_CASE("logaddexp of infinities and of far numbers is finite where it should be") {
  const Tensor a = tensor({kInf, -kInf, kInf, -kInf, 1000.0, kNan, 0.0}),
               b = tensor({kInf, -kInf, -kInf, 3.0, 0.0, 1.0, kNan});
  const List y = values(logaddexp(a, b));
  CHECK(List(y.begin(), y.begin() + 5) == List{kInf, -kInf, kInf, 3, 1000});
  CHECK(std::isnan(y[5]));
  CHECK(std::isnan(y[6]));
  const Tensor p = tensor({kInf, -kInf, 500.0, -500.0}, {.requires_grad = true}),
               q = tensor({kInf, -kInf, -500.0, 500.0}, {.requires_grad = true});
  sum(logaddexp(p, q)).backward();
  CHECK(values(p.grad()) == List{0.5, 0.5, 1, 0});
  CHECK(values(q.grad()) == List{0.5, 0.5, 0, 1});
  CHECK(logaddexp(tensor({1}), tensor({1})).dtype() == f32);
}

TEST_CASE("nan_to_num takes the limits of the dtype") {
  for (const auto& [dtype, most] : {std::pair{f16, 65504.0},
                                    {bf16, 0x1.fep127},
                                    {f32, 0x1.fffffep127},
                                    {f64, std::numeric_limits<double>::max()}}) {
    const Tensor x = tensor({kNan, kInf, -kInf, 1.5}, {.dtype = dtype});
    CHECK(values(nan_to_num(x)) == List{0, most, -most, 1.5});
    nan_to_num_(x, {.nan = 1, .neginf = -2});
    CHECK(values(x) == List{1, most, -2, 1.5});
  }
  CHECK(nan_to_num(tensor({1, 2})).dtype() == i64);
  CHECK(nan_to_num(tensor({true})).dtype() == boolean);
}

TEST_CASE("meshgrid makes views in either order") {
  const Tensor a = tensor({1., 2, 3}, {.requires_grad = true}), b = tensor({4., 5});
  const std::vector<Tensor> ij = meshgrid({a, b});
  CHECK(values(ij[0]) == List{1, 1, 2, 2, 3, 3});
  CHECK(values(ij[1]) == List{4, 5, 4, 5, 4, 5});
  CHECK(ij[1].impl()->storage == b.impl()->storage);
  const std::vector<Tensor> xy = meshgrid({a, b}, {.indexing = MeshIndexing::xy});
  CHECK(xy[0].shape() == Shape{2, 3});
  CHECK(values(xy[0]) == List{1, 2, 3, 1, 2, 3});
  CHECK(values(xy[1]) == List{4, 4, 4, 5, 5, 5});
  sum(xy[0] * ij[0].T()).backward();
  CHECK(values(a.grad()) == List{4, 8, 12});
  CHECK(meshgrid({tensor(1), tensor({2, 3})})[0].shape() == Shape{1, 2});
  CHECK(meshgrid({a, b, b}, {.indexing = MeshIndexing::xy})[2].shape() == Shape{2, 3, 2});
  CHECK_THROWS_AS(meshgrid({}), ValueError);
  CHECK_THROWS_AS(meshgrid({tensor({{1}})}), ShapeError);
  CHECK_THROWS_AS(meshgrid({tensor({1}), tensor({1.0})}), DtypeError);
}

TEST_CASE("repeat_interleave, tile, diff and stacks refuse and accept as in PyTorch") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(values(repeat_interleave(x, 2)) == List{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(values(repeat_interleave(x, tensor({0, 2}), {.dim = 0})) == List{3, 4, 3, 4});
  CHECK(values(repeat_interleave(x, tensor({2}), {.dim = -1})) == List{1, 1, 2, 2, 3, 3, 4, 4});
  CHECK(values(repeat_interleave(tensor(5), 3)) == List{5, 5, 5});
  CHECK(repeat_interleave(zeros({0, 2}), tensor({1, 3}), {.dim = 1}).shape() == Shape{0, 4});
  CHECK_THROWS_AS(repeat_interleave(x, -1), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({-1, 1}), {.dim = 0}), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, 1, 1}), {.dim = 0}), ShapeError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1.0}), {.dim = 0}), DtypeError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, 2}), {.dim = 0, .output_size = 4}), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, 2, {.dim = 2}), IndexError);
  CHECK(values(tile(tensor({1, 2}), {2})) == List{1, 2, 1, 2});
  CHECK(tile(x, {}).shape() == Shape{2, 2});
  CHECK(tile(tensor({1, 2}), {3, 1}).shape() == Shape{3, 2});
  CHECK_THROWS_AS(tile(x, {-1}), ValueError);
  CHECK(values(diff(tensor({true, true, false}))) == List{0, 1});
  CHECK(diff(tensor({true, false})).dtype() == boolean);
  CHECK(values(diff(tensor({1, 4, 9}), {.n = 0})) == List{1, 4, 9});
  CHECK(diff(tensor({1, 4, 9}), {.n = 5}).shape() == Shape{0});
  CHECK(values(diff(tensor({1, 4}), {.prepend = tensor({0}), .append = tensor({9.5})})) ==
        List{1, 3, 5.5});
  CHECK_THROWS_AS(diff(tensor(1)), ShapeError);
  CHECK_THROWS_AS(diff(x, {.n = -1}), ValueError);
  CHECK(values(hstack({tensor(1), tensor({2, 3})})) == List{1, 2, 3});
  CHECK(vstack({tensor(1), tensor({{2}, {3}})}).shape() == Shape{3, 1});
  CHECK(hstack({ones({2}, f16), ones({2})}).dtype() == f32);
  CHECK_THROWS_AS(hstack({}), ValueError);
  CHECK_THROWS_AS(vstack({x, tensor({1, 2, 3})}), ShapeError);
}
