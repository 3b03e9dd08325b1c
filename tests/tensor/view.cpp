// Views: shapes, strides, sharing, and the errors of the shape methods.
#include <mezzo.h>

#include <limits>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

Tensor counting(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>(i));
  return tensor(values, shape);
}

std::vector<int> values(const Tensor& x) { return x.to_vector<int>(); }

}  // namespace

TEST_CASE("views share storage and version", "[view]") {
  const Tensor x = counting({2, 3});
  const Tensor y = x.transpose(0, 1);
  CHECK(y.shape() == Shape{3, 2});
  CHECK_FALSE(y.is_contiguous());
  CHECK(values(y) == std::vector<int>{0, 3, 1, 4, 2, 5});
  y.select(0, 1).fill_(9);
  CHECK(values(x) == std::vector<int>{0, 9, 2, 3, 9, 5});
  CHECK(x.version() == 1);
  CHECK(y.version() == 1);
}

TEST_CASE("view, reshape, flatten and unflatten", "[view]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.view({6, -1}).shape() == Shape{6, 4});
  CHECK(x.flatten(1).shape() == Shape{2, 12});
  CHECK(x.flatten().shape() == Shape{24});
  CHECK(x.unflatten(2, {2, -1}).shape() == Shape{2, 3, 2, 2});
  CHECK(counting({}).flatten().shape() == Shape{1});
  const Tensor t = x.transpose(1, 2);
  CHECK(t.view({2, 2, 2, 3}).shape() == Shape{2, 2, 2, 3});  // splitting a dimension needs no copy
  CHECK_THROWS_WITH_AS_TEXT(
      t.view({24}), ShapeError,
      "view: the strides do not allow this shape without a copy; got f32[2,4,3]@cpu "
      "with strides [12,1,4] as [24]; use x.reshape(...)");
  CHECK(values(t.reshape({24}))[1] == 4);
  CHECK_THROWS_WITH_AS_TEXT(x.view({5, -1}), ShapeError, "element counts differ");
  CHECK_THROWS_WITH_AS_TEXT(x.view({-1, -1}), ShapeError, "more than one size to infer");
  CHECK_THROWS_WITH_AS_TEXT(zeros({0, 3}).view({-1, 0}), ShapeError, "ambiguous");
  CHECK(zeros({0, 3}).view({-1, 3}).shape() == Shape{0, 3});
  CHECK(zeros({0, 3}).view({5, 0}).shape() == Shape{5, 0});
}

TEST_CASE("permute, movedim, squeeze, unsqueeze, expand", "[view]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.permute({2, 0, 1}).shape() == Shape{4, 2, 3});
  CHECK(x.movedim(0, -1).shape() == Shape{3, 4, 2});
  CHECK(x.unsqueeze(-1).shape() == Shape{2, 3, 4, 1});
  CHECK(x.unsqueeze(0).squeeze().shape() == Shape{2, 3, 4});
  CHECK(x.unsqueeze(1).squeeze(1).shape() == Shape{2, 3, 4});
  CHECK(x.squeeze(1).shape() == Shape{2, 3, 4});
  CHECK(counting({3, 1}).expand({2, -1, 4}).strides() == Strides{0, 1, 0});
  CHECK_THROWS_WITH_AS_TEXT(x.permute({0, 1}), ShapeError,
                            "the order must contain every dimension");
  CHECK_THROWS_WITH_AS_TEXT(x.permute({0, 1, 1}), IndexError, "dimension named twice");
  CHECK_THROWS_WITH_AS_TEXT(x.expand({2, 3, 5}), ShapeError, "sizes do not fit");
  CHECK_THROWS_WITH_AS_TEXT(x.transpose(0, 3), IndexError,
                            "transpose: dimension out of range; got 3, expected -3..2");
  CHECK_THROWS_WITH_AS_TEXT(x.t(), ShapeError, "only matrices");
}

TEST_CASE("slice, narrow, select, split, chunk, unbind", "[view]") {
  const Tensor x = counting({10});
  CHECK(values(x.slice(0, 2, 8, 3)) == std::vector<int>{2, 5});
  CHECK(values(x.slice(0, -3, 100)) == std::vector<int>{7, 8, 9});
  CHECK(x.slice(0, 8, 2).numel() == 0);
  CHECK(values(x.narrow(0, -2, 2)) == std::vector<int>{8, 9});
  CHECK(x[-1].item<int>() == 9);
  const std::vector<Tensor> pieces = x.split(4);
  REQUIRE(pieces.size() == 3);
  CHECK(values(pieces[2]) == std::vector<int>{8, 9});
  CHECK(x.chunk(3)[0].numel() == 4);
  CHECK(counting({2, 3}).unbind(1).size() == 3);
  CHECK_THROWS_WITH_AS_TEXT(x.narrow(0, 8, 3), IndexError, "range outside the tensor");
  CHECK_THROWS_WITH_AS_TEXT(
      x[10], IndexError,
      "select: index out of range; got 10 along dimension 0 of f32[10]@cpu, expected -10..9");
  CHECK_THROWS_WITH_AS_TEXT(x.slice(0, 0, 5, 0), ValueError, "step must be positive");
  CHECK_THROWS_WITH_AS_TEXT(x.split(0), ValueError, "size must be positive");
  CHECK_THROWS_WITH_AS_TEXT(counting({})[0], ShapeError, "0-dim");
}

TEST_CASE("as_strided stays inside the storage", "[view]") {
  const Tensor x = counting({6});
  CHECK(values(x.as_strided({2, 3}, {1, 2})) == std::vector<int>{0, 2, 4, 1, 3, 5});
  CHECK_THROWS_WITH_AS_TEXT(x.as_strided({2, 3}, {1, 2}, 1), IndexError,
                            "the view extends outside the storage");
  CHECK_THROWS_WITH_AS_TEXT(x.as_strided({2}, {-1}, 3), ValueError, "negative stride");
}

TEST_CASE("invalid sizes are rejected", "[view]") {
  CHECK_THROWS_WITH_AS_TEXT(zeros({2, -1}), ValueError, "negative size");
  CHECK_THROWS_WITH_AS_TEXT(zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}), SizeError,
                            "number of elements overflows");
  CHECK_THROWS_WITH_AS_TEXT(zeros({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), SizeError,
                            "number of elements overflows");
  CHECK_THROWS_WITH_AS_TEXT((zeros({1, 1, 1, 1, 1, 1, 1, 1, 1})), ShapeError,
                            "too many dimensions");
}

TEST_CASE("promotion: by category, then tensors over 0-dim tensors over numbers", "[promotion]") {
  const Tensor h = zeros({8}, {.dtype = f16}), b = zeros({8}, {.dtype = bf16}), f = zeros({8}),
               d = zeros({8}, {.dtype = f64});
  const Tensor i = zeros({8}, {.dtype = i64}), s = zeros({}), sh = zeros({}, {.dtype = f16});
  CHECK((h * 2.5).dtype() == f16);
  CHECK((h * s).dtype() == f16);
  CHECK((i * 2.5).dtype() == f32);
  CHECK((i * sh).dtype() == f16);
  CHECK((i * 2).dtype() == i64);
  CHECK((h + b).dtype() == f32);
  CHECK((h + h).dtype() == f16);
  CHECK((h + f).dtype() == f32);
  CHECK((f + d).dtype() == f64);
  CHECK((zeros({2}, {.dtype = u8}) + zeros({2}, {.dtype = i32})).dtype() == i32);
  CHECK((i / 2).dtype() == f32);
  CHECK((h > 0).dtype() == boolean);
  CHECK_THROWS_WITH_AS_TEXT((h > 0) - (h > 1), DtypeError, "not defined for bool");
}

TEST_CASE("element access is checked", "[tensor]") {
  const Tensor x = counting({2, 2});
  CHECK_THROWS_WITH_AS_TEXT(x.data<double>(), DtypeError, "the tensor holds another type");
  CHECK_THROWS_WITH_AS_TEXT(x.item<float>(), ShapeError,
                            "only a tensor of one element has an item");
  CHECK(x.t().to_vector<float>() == std::vector<float>{0, 2, 1, 3});
}

TEST_CASE("steps, chunks and windows may be as large as int64", "[view]") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const Tensor x = arange(5.0);
  for (const std::int64_t step : {kHuge, kHuge - 1, kHuge - 4}) {
    CHECK(x.slice(0, 0, 4, step).shape() == Shape{1});
    CHECK(x.slice(0, 2, kHuge, step).to_vector<double>() == std::vector<double>{2});
    CHECK(x.unfold(0, 3, step).shape() == Shape{1, 3});
  }
  CHECK(x.slice(0, std::numeric_limits<std::int64_t>::min(), kHuge).shape() == Shape{5});
  CHECK(x.chunk(kHuge).size() == 5);
  CHECK(x.split(kHuge).size() == 1);
}

TEST_CASE("a shape whose number of elements overflows is rejected, even with zero sizes",
          "[view]") {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  CHECK_THROWS_AS(zeros({0}).view({0, kMany, kMany}), SizeError);
  CHECK_THROWS_AS(zeros({1}).expand({kMany}).unfold(0, kMany / 2, 1), SizeError);
  CHECK_THROWS_AS(zeros({0}).as_strided({0, kMany}, {1, kMany}), IndexError);
}
