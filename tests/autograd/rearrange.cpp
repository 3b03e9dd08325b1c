// Shape ops where the generated tests do not reach: errors, integers and bool, f32 accumulation of
// 16-bit gradients, writes to views.
#include <mezzo.h>

#include <limits>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using List = std::vector<double>;

}  // namespace

TEST_CASE("pad starts at the last dimension and accepts any dtype") {
  CHECK(values(pad(tensor({1, 2, 3}, {.dtype = i64}), {1, 2}, {.value = 7})) ==
        List{7, 1, 2, 3, 7, 7});
  const Tensor mask = pad(ones({2}, {.dtype = boolean}), {0, 1}, {.value = 1});
  CHECK(mask.dtype() == boolean);
  CHECK(values(mask) == List{1, 1, 1});
  CHECK(pad(counting({2, 3}), {1, 0, 0, 4}).shape() == Shape{6, 4});
  CHECK(values(pad(counting({4}, i32), {-1, -1})) == List{1, 2});
  CHECK(pad(counting({4}), {-2, -2}).shape() == Shape{0});
  CHECK(values(pad(tensor({-0.0, 1.0}), {1, 1}, {.mode = PadMode::reflect})) == List{1, 0, 1, 0});
  CHECK(std::signbit(pad(tensor({-0.0, 1.0}), {0, 1}).to_vector<float>()[0]));
}

TEST_CASE("pad rejects padding that the mode cannot fill") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_WITH_AS_TEXT(
      pad(x, {3, 0}, {.mode = PadMode::reflect}), ShapeError,
      "pad: reflect padding is too large for the dimension; got 3 around dimension 1 of "
      "f32[2,3]@cpu, expected less than 3");
  CHECK_THROWS_WITH_AS_TEXT(
      pad(x, {0, 4}, {.mode = PadMode::circular}), ShapeError,
      "pad: circular padding is too large for the dimension; got 4 around dimension 1");
  CHECK(pad(x, {3, 3}, {.mode = PadMode::circular}).shape() == Shape{2, 9});
  CHECK_THROWS_AS(pad(zeros({2, 0}), {1, 0}, {.mode = PadMode::replicate}), ShapeError);
  CHECK(pad(zeros({2, 0}), {1, 0}, {.value = 3}).to_vector<double>() == List{3, 3});
  CHECK_THROWS_WITH_AS_TEXT(pad(x, {-2, -2}), ShapeError,
                            "pad: more elements are removed than there are");
  CHECK_THROWS_WITH_AS_TEXT(pad(x, {1}), ShapeError, "pad: paddings come in pairs");
  CHECK_THROWS_AS(pad(x, {1, 1, 1, 1, 1, 1}), ShapeError);
  CHECK_THROWS_AS(pad(x, {std::numeric_limits<std::int64_t>::max(), 0}), SizeError);
  CHECK_THROWS_AS(pad(Tensor{}, {1, 1}), ValueError);
}

TEST_CASE("gradients of padding and repeating accumulate in f32 and round once") {
  // 2048 + 1 is not representable in f16: a sum in f16 would stay at 2048.
  const Tensor x = ones({1}, {.dtype = f16}).requires_grad_();
  Tensor g = ones({3000}, {.dtype = f16});
  pad(x, {1000, 1999}, {.mode = PadMode::replicate}).backward(g);
  CHECK(x.grad().item<float>() == 3000);
  x.set_grad({});
  repeat(x, {3000}).backward(g);
  CHECK(x.grad().item<float>() == 3000);
  x.set_grad({});
  x.expand({3000}).unfold(0, 1, 1).backward(g.unsqueeze(1));
  CHECK(x.grad().item<float>() == 3000);
}

TEST_CASE("flip, roll and repeat accept integers and check their arguments") {
  const Tensor x = counting({2, 3}, i64);
  CHECK(values(flip(x, 1)) == List{2, 1, 0, 5, 4, 3});
  CHECK(values(flip(x, {})) == values(x));
  CHECK(!flip(x, {}).is_same(x));
  CHECK(values(flip(tensor({true, false}, {.dtype = boolean}), 0)) == List{0, 1});
  CHECK(values(flip(tensor(3.0), 0)) == List{3});
  CHECK_THROWS_AS(flip(x, 2), IndexError);
  CHECK_THROWS_AS(flip(x, {0, -2}), IndexError);
  CHECK(values(roll(x, 1)) == List{5, 0, 1, 2, 3, 4});
  CHECK(values(roll(x, -1, 1)) == List{1, 2, 0, 4, 5, 3});
  CHECK(values(roll(x, {1, 1}, {1, 1})) == values(roll(x, 2, 1)));
  CHECK_THROWS_AS(roll(x, {1, 2}), ValueError);
  CHECK_THROWS_AS(roll(x, 1, {0, 1}), ValueError);
  CHECK_THROWS_AS(roll(x, 1, 2), IndexError);
  CHECK(repeat(x, {2, 1, 2}).shape() == Shape{2, 2, 6});
  CHECK_THROWS_WITH_AS_TEXT(repeat(x, {2}), ShapeError,
                            "repeat: every dimension needs a number of repeats");
  CHECK_THROWS_AS(repeat(x, {1, -1}), ValueError);
  CHECK_THROWS_AS(repeat(x, {1, std::numeric_limits<std::int64_t>::max()}), SizeError);
}

TEST_CASE("unfold and fold reject mismatched arguments") {
  const Tensor image = counting({1, 2, 4, 4});
  CHECK_THROWS_WITH_AS_TEXT(unfold(image, 5), ShapeError, "unfold: no block fits the padded image");
  CHECK_THROWS_AS(unfold(counting({4, 4}), 2), ShapeError);
  CHECK_THROWS_AS(unfold(image, 0), ValueError);
  CHECK_THROWS_AS(unfold(image, 2, {.stride = 0}), ValueError);
  CHECK_THROWS_AS(unfold(image, 2, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(unfold(image, {2, 2, 2}), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(
      fold(counting({1, 8, 8}), 4, 2), ShapeError,
      "fold: the columns do not fit the blocks; got f32[1,8,8]@cpu, expected [n,c*4,9] or [c*4,9]");
  CHECK_THROWS_AS(fold(counting({1, 6, 9}), 4, 2), ShapeError);
  CHECK_THROWS_AS(fold(counting({1, 4, 9}), 0, 2), ValueError);
  // Fold counts how many blocks hold each element.
  CHECK(values(fold(unfold(ones({1, 1, 3, 3}, {.dtype = i64}), 2), 3, 2)) ==
        List{1, 2, 1, 2, 4, 2, 1, 2, 1});
}

TEST_CASE("pixel_shuffle and pixel_unshuffle need divisible channels, height and width") {
  CHECK_THROWS_WITH_AS_TEXT(pixel_shuffle(zeros({1, 6, 2, 2}), 2), ShapeError,
                            "channels divisible by 4");
  CHECK_THROWS_AS(pixel_shuffle(zeros({4, 2}), 2), ShapeError);
  CHECK_THROWS_AS(pixel_shuffle(zeros({4, 2, 2}), 0), ValueError);
  CHECK_THROWS_AS(pixel_unshuffle(zeros({1, 3, 4}), 2), ShapeError);
  const Tensor x = counting({2, 9, 4, 5}, i32);
  CHECK(values(pixel_unshuffle(pixel_shuffle(x, 3), 3)) == values(x));
}

TEST_CASE("a diagonal is a view: writes reach the matrix, and gradients pass through") {
  const Tensor m = zeros({3, 3});
  m.diagonal(1).fill_(5);
  CHECK(values(m) == List{0, 5, 0, 0, 0, 5, 0, 0, 0});
  const Tensor w = ones({2, 2}).requires_grad_(), y = w * 2;
  y.diagonal().copy_(tensor({7.0, 8.0}));
  sum(y).backward();
  CHECK(values(w.grad()) == List{0, 2, 2, 0});
  CHECK(m.diagonal(7).shape() == Shape{0});
  CHECK(m.diagonal(std::numeric_limits<std::int64_t>::min()).shape() == Shape{0});
  CHECK_THROWS_AS(zeros({3}).diagonal(), ShapeError);
  CHECK_THROWS_AS(m.diagonal(0, 1, -1), IndexError);
  CHECK_THROWS_AS(m.diagonal(0, 0, 2), IndexError);
}

TEST_CASE("in-place writes to overlapping sliding windows are rejected") {
  const Tensor x = counting({5});
  const Tensor windows = x.unfold(0, 3, 1);
  CHECK(windows.raw_data() == x.raw_data());
  CHECK(values(windows) == List{0, 1, 2, 1, 2, 3, 2, 3, 4});
  CHECK_THROWS_AS(windows.fill_(1), ValueError);
  CHECK_NOTHROW(x.unfold(0, 2, 2).fill_(9));
  CHECK(values(x) == List{9, 9, 9, 9, 4});
  CHECK(tensor(3.0).unfold(0, 1, 1).shape() == Shape{1});
  CHECK_THROWS_AS(x.unfold(0, 6, 1), ValueError);
  CHECK_THROWS_AS(x.unfold(0, -1, 1), ValueError);
  CHECK_THROWS_AS(x.unfold(0, 2, 0), ValueError);
  CHECK_THROWS_AS(x.unfold(1, 2, 1), IndexError);
}

TEST_CASE("movedim accepts one dimension or several") {
  const Tensor x = zeros({2, 3, 4, 5});
  CHECK(x.movedim(0, -1).shape() == Shape{3, 4, 5, 2});
  CHECK(x.movedim({0, 1}, {3, 0}).shape() == Shape{3, 4, 5, 2});
  CHECK(x.movedim({3, 0}, {0, 1}).shape() == Shape{5, 2, 3, 4});
  CHECK(x.broadcast_to({6, 2, 3, 4, 5}).shape() == Shape{6, 2, 3, 4, 5});
  CHECK_THROWS_AS(x.movedim({0, 1}, {0}), ShapeError);
  CHECK_THROWS_AS(x.movedim({0, 0}, {0, 1}), IndexError);
  CHECK_THROWS_AS(x.movedim(4, 0), IndexError);
}

TEST_CASE("triangles, diagonals of vectors and one_hot in edge cases") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = full({2, 2}, inf).requires_grad_();
  const Tensor y = tril(x);
  CHECK(y.to_vector<float>() == std::vector<float>{inf, 0, inf, inf});
  y.backward(full({2, 2}, inf));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{inf, 0, inf, inf});
  CHECK(values(triu(counting({2, 3}, i64), std::numeric_limits<std::int64_t>::min())) ==
        List{0, 1, 2, 3, 4, 5});
  CHECK(values(tril(counting({2, 3}, i64), std::numeric_limits<std::int64_t>::max())) ==
        List{0, 1, 2, 3, 4, 5});
  CHECK_THROWS_AS(tril(zeros({3})), ShapeError);
  CHECK(values(diag(tensor({1, 2}, {.dtype = i64}), -1)) == List{0, 0, 0, 1, 0, 0, 0, 2, 0});
  CHECK_THROWS_AS(diag(zeros({2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(diag(zeros({2}), std::numeric_limits<std::int64_t>::min()), SizeError);
  CHECK(trace(counting({2, 2}, i32)).dtype() == i64);
  CHECK_THROWS_AS(trace(zeros({2})), ShapeError);
  const Tensor classes = tensor({1, 0, 2}, {.dtype = i32});
  CHECK(one_hot(classes).dtype() == i64);
  CHECK(values(one_hot(classes)) == List{0, 1, 0, 1, 0, 0, 0, 0, 1});
  CHECK_THROWS_WITH_AS_TEXT(one_hot(classes, 2), IndexError,
                            "one_hot: index out of range; got 2 at index[2]");
  CHECK_THROWS_AS(one_hot(tensor({-1}, {.dtype = i64})), IndexError);
  CHECK_THROWS_AS(one_hot(zeros({2})), DtypeError);
  CHECK_THROWS_AS(one_hot(classes, 0), ValueError);
  CHECK_THROWS_AS(one_hot(zeros({0}, {.dtype = i64})), ValueError);
  CHECK(one_hot(zeros({0}, {.dtype = i64}), 4).shape() == Shape{0, 4});
}
