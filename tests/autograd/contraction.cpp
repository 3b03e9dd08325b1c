// Contractions where the generated tests do not reach: mixed dtypes, invalid operands.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

TEST_CASE("tensordot and bilinear run in the promoted dtype", "[contraction]") {
  const Tensor a = full({2, 3}, 0.1, {.dtype = f16, .requires_grad = true}), b = full({3, 2}, 0.1);
  const Tensor y = tensordot(a, b, 1);
  CHECK(y.dtype() == f32);
  CHECK(y.to_vector<float>() == matmul(a.to(f32), b).to_vector<float>());
  sum(y).backward();
  CHECK(a.grad().dtype() == f16);
  const Tensor w = ones({2, 3, 3}, {.dtype = f16});
  CHECK(bilinear(a, a, w).dtype() == f16);
  CHECK(bilinear(a, a, w, zeros({2})).dtype() == f32);
  CHECK(cross(a, b.t()).dtype() == f32);
  CHECK(cross(tensor({1, 2, 3}, {.dtype = i64}), tensor({4, 5, 6}, {.dtype = i64}))
            .to_vector<int>() == std::vector<int>{-3, 6, -3});
  const amp::autocast on;
  CHECK(tensordot(b, b.t(), 1).dtype() == f32);
  CHECK(einsum("ij,jk", {b, b.t()}).dtype() == f16);
}

TEST_CASE("prelu propagates nan and uses the slope at 0", "[contraction]") {
  const Tensor x = tensor({0., -2, 3}, {.requires_grad = true}),
               w = tensor({0.5}, {.requires_grad = true});
  sum(prelu(x, w)).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0.5, 0.5, 1});
  CHECK(w.grad().to_vector<double>() == std::vector<double>{-2});
  CHECK(isnan(prelu(tensor({NAN}), w)).item<bool>());
}

TEST_CASE("contractions reject mismatched operands", "[contraction]") {
  const Tensor a = zeros({2, 3}), b = zeros({3, 4}), h = zeros({3, 4}, {.dtype = f16});
  CHECK_THROWS_WITH_AS_TEXT(multi_dot({a, b, b}), ShapeError,
                            "multi_dot: inner sizes of operands 1 and 2 differ; got f32[2,3]@cpu, "
                            "f32[3,4]@cpu and f32[3,4]@cpu, expected equal inner sizes");
  CHECK_THROWS_AS(multi_dot({a}), ValueError);
  CHECK_THROWS_AS(multi_dot({}), ValueError);
  CHECK_THROWS_AS(multi_dot({a, h}), DtypeError);
  CHECK_THROWS_AS(multi_dot({a, zeros({3, 4, 5})}), ShapeError);
  CHECK_THROWS_AS(chain_matmul({zeros({3}), b}), ShapeError);
  CHECK(chain_matmul({a}).shape() == a.shape());
  CHECK_THROWS_AS(tensordot(a, b), ShapeError);
  CHECK_THROWS_AS(tensordot(a, b, 3), ValueError);
  CHECK_THROWS_AS(tensordot(a, b, -1), ValueError);
  CHECK_THROWS_AS(tensordot(a, b, {{1}, {0, 1}}), ValueError);
  CHECK_THROWS_AS(tensordot(a, b, {{5}, {0}}), IndexError);
  CHECK_THROWS_AS(tensordot(b, b, {{0, 0}, {0, 1}}), IndexError);
  CHECK_THROWS_AS(tensordot(zeros({2, 2}, {.dtype = boolean}), zeros({2, 2}, {.dtype = boolean})),
                  DtypeError);
  CHECK_THROWS_AS(bilinear(a, b, zeros({1, 3, 4})), ShapeError);
  CHECK_THROWS_AS(bilinear(a, a, zeros({1, 3, 3}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(bilinear(a, a, Tensor{}), ValueError);
  CHECK_THROWS_AS(cross(a, b), ShapeError);
  CHECK_THROWS_AS(cross(b, b), ShapeError);
  CHECK_THROWS_AS(cross(a, a, {.dim = 2}), IndexError);
  CHECK_THROWS_AS(cross(zeros({3}, {.dtype = boolean}), zeros({3}, {.dtype = boolean})),
                  DtypeError);
  CHECK_THROWS_AS(prelu(a, zeros({2})), ShapeError);
  CHECK_THROWS_AS(prelu(a, zeros({3}, {.dtype = f16})), DtypeError);
  CHECK_THROWS_AS(prelu(a, Tensor{}), ValueError);
}

TEST_CASE("einsum rejects malformed equations", "[contraction]") {
  const Tensor a = zeros({2, 3}), b = zeros({3, 4});
  CHECK_THROWS_WITH_AS_TEXT(einsum("ij,jk->iz", {a, b}), ValueError,
                            "einsum: no operand has the result's 'z'; got \"ij,jk->iz\"");
  CHECK_THROWS_WITH_AS_TEXT(
      einsum("ij,ij->ij", {a, b}), ShapeError,
      "einsum: sizes under 'i' differ; got f32[2,3]@cpu and f32[3,4]@cpu, expected equal "
      "sizes, or 1 in another operand");
  CHECK_THROWS_AS(einsum("i1,jk", {a, b}), ValueError);
  CHECK_THROWS_AS(einsum("ij->ii", {a}), ValueError);
  CHECK_THROWS_AS(einsum("ij", {a, b}), ValueError);
  CHECK_THROWS_AS(einsum("i.j", {a}), ValueError);
  CHECK_THROWS_AS(einsum("......", {a}), ValueError);
  CHECK_THROWS_AS(einsum("ijk", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("i", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("ii", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("ijk...", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("ij,jk", {a, b.to(f64)}), DtypeError);
  CHECK_THROWS_AS(einsum("", {}), ValueError);
}
