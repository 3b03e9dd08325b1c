// lp_pool and max_unpool where the generated tests do not reach.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

TEST_CASE("max_unpool restores the elements that max_pool selected") {
  const Tensor x = tensor({1.0, 7.0, 3.0, 2.0, 5.0, 4.0, 9.0, 8.0}, {1, 2, 4});
  const ValuesAndIndices pooled = max_pool1d_with_indices(x, 2);
  CHECK(max_unpool1d(pooled.values, pooled.indices, 2).to_vector<double>() ==
        std::vector<double>{0, 7, 3, 0, 5, 0, 9, 0});
  CHECK(max_unpool1d(pooled.values, pooled.indices, 2, {.output_size = 5}).shape() ==
        Shape{1, 2, 5});
  CHECK_THROWS_AS(max_unpool1d(pooled.values, pooled.indices, 2, {.output_size = 2}), IndexError);
  CHECK_THROWS_WITH_AS_TEXT(max_unpool3d(pooled.values, pooled.indices, 2), ShapeError,
                            "max_unpool3d: ");
  CHECK_THROWS_AS(max_unpool1d(zeros({2}), zeros({2}, {.dtype = i64}), 2), ShapeError);
  CHECK_THROWS_AS(max_unpool1d(pooled.values, pooled.values, 2), DtypeError);
  CHECK_THROWS_AS(max_unpool1d(pooled.values, Tensor{}, 2), ValueError);
}

TEST_CASE("a window of zeros has p-norm 0 and gradient 0") {
  const Tensor x = zeros({1, 1, 2}).requires_grad_();
  const Tensor y = lp_pool1d(x, 2, 2);
  CHECK(y.item<double>() == 0);
  y.backward(ones({1, 1, 1}));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0});
  CHECK_THROWS_WITH_AS_TEXT(lp_pool1d(x, 0, 2), ValueError, "lp_pool1d: p is out of range");
  CHECK_THROWS_AS(lp_pool1d(x, 2, 3), ShapeError);
  CHECK_THROWS_AS(lp_pool1d(zeros({1, 1, 2}, {.dtype = i64}), 2, 2), DtypeError);
}
