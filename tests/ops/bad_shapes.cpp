// Bad calls of views, products, indexing and elementwise ops.
#include "../support/catch.h"
#include "bad_calls.h"

using namespace cases;
using namespace mezzo;

namespace {

const std::vector<BadCallRow> kBadViews{
    BAD(ShapeError, m.view({5, -1})),
    BAD(ShapeError, m.view({-1, -1})),
    BAD(ShapeError, m.view({7})),
    BAD(ShapeError, m.view({-2, 6})),
    BAD(ShapeError, e.view({-1, 0})),
    BAD(ShapeError, m.t().view({12})),
    BAD(ShapeError, m.reshape({5})),
    BAD(IndexError, m.flatten(0, 2)),
    BAD(ShapeError, m.flatten(1, 0)),
    BAD(ShapeError, m.unflatten(1, {3, 2})),
    BAD(IndexError, m.transpose(0, 2)),
    BAD(IndexError, m.permute({0, 0})),
    BAD(ShapeError, m.permute({0})),
    BAD(IndexError, m.permute({0, 2})),
    BAD(IndexError, m.movedim(0, 2)),
    BAD(IndexError, m.squeeze(2)),
    BAD(IndexError, m.unsqueeze(3)),
    BAD(IndexError, m.unsqueeze(-4)),
    BAD(ShapeError, m.expand({3, 5})),
    BAD(ShapeError, m.expand({4})),
    BAD(ValueError, v.expand({-1, 4})),
    BAD(ValueError, v.expand({3, -2})),
    BAD(SizeError, s.expand({std::int64_t{1} << 40, std::int64_t{1} << 40})),
    BAD(IndexError, m.slice(2, 0, 1)),
    BAD(ValueError, m.slice(0, 0, 2, 0)),
    BAD(ValueError, m.slice(0, 0, 2, -1)),
    BAD(IndexError, m.narrow(0, 2, 2)),
    BAD(IndexError, m.narrow(0, -5, 1)),
    BAD(IndexError, m.narrow(0, 0, -1)),
    BAD(IndexError, m.select(0, 3)),
    BAD(IndexError, m.select(0, -4)),
    BAD(IndexError, m.select(2, 0)),
    BAD(ShapeError, s.select(0, 0)),
    BAD(ShapeError, s[0]),
    BAD(IndexError, m.as_strided({4, 4}, {4, 1})),
    BAD(ValueError, m.as_strided({2, 2}, {4, -1}, 5)),
    BAD(IndexError, m.as_strided({2}, {1}, -1)),
    BAD(IndexError, m.as_strided({2}, {1}, std::int64_t{1} << 62)),
    BAD(IndexError, m.slice(0, 1, 3).as_strided({2}, {1}, INT64_MAX)),
    BAD(ShapeError, m.as_strided({2}, {1, 1})),
    BAD(ValueError, m.as_strided({-1}, {1})),
    BAD(IndexError, m.as_strided({1 << 20, 1 << 20}, {std::int64_t{1} << 50, 1})),
    BAD(ShapeError, m.item<double>()),
    BAD(ShapeError, cat({m, v})),
    BAD(ShapeError, cat({m, full({3, 5}, 1)})),
    BAD(IndexError, cat({m, m}, 2)),
    BAD(ValueError, cat({})),
    BAD(ShapeError, cat({s, s})),
    BAD(ShapeError, stack({m, v})),
    BAD(ValueError, stack({})),
    BAD(IndexError, stack({m, m}, 3)),
    BAD(Error, cat({m, none})),
    BAD(Error, stack({m, none})),
};

const std::vector<BadCallRow> kProducts{
    BAD(ShapeError, matmul(m, m)),
    BAD(ShapeError, matmul(s, m)),
    BAD(ShapeError, matmul(m, s)),
    BAD(ShapeError, matmul(t, full({3, 4, 5}, 1))),
    BAD(DtypeError, matmul(m, wide.t())),
    BAD(DtypeError, matmul(im != 0, im.t() != 0)),
    BAD(ShapeError, mm(m, m)),
    BAD(ShapeError, mm(m, v)),
    BAD(ShapeError, mm(t, m)),
    BAD(DtypeError, mm(m, half.t())),
    BAD(ShapeError, bmm(t, t)),
    BAD(ShapeError, bmm(t, m)),
    BAD(ShapeError, bmm(t, full({3, 4, 2}, 1))),
    BAD(ShapeError, mv(m, full({3}, 1))),
    BAD(ShapeError, mv(v, v)),
    BAD(ShapeError, dot(v, full({3}, 1))),
    BAD(ShapeError, dot(m, m)),
    BAD(ShapeError, vecdot(v, full({3}, 1))),
    BAD(ShapeError, outer(m, v)),
    BAD(ShapeError, linear(m, full({2, 3}, 1))),
    BAD(ShapeError, linear(m, v, full({2}, 1))),
    BAD(ShapeError, linear(m, full({2, 4}, 1), full({3}, 1))),
    BAD(DtypeError, linear(half, full({2, 4}, 1))),
    BAD(ShapeError, linear(s, full({2, 4}, 1))),
    BAD(ShapeError, mlp(m, {full({2, 4}, 1), full({3, 3}, 1)})),
    BAD(ShapeError, mlp(m, {full({2, 4}, 1), full({3, 2}, 1)}, {v, v})),
    BAD(DtypeError, mlp(half, {full({2, 4}, 1)})),
    BAD(ValueError, mlp(m, {})),
    BAD(ValueError, mlp(m, {full({2, 4}, 1)}, {v, v})),
    BAD(ValueError, mlp(m, {Tensor{}})),
    BAD(ShapeError, addmm(v, m, m)),
    BAD(ShapeError, addmm(full({5}, 1), m, m.t())),
    BAD(ShapeError, addmv(v, m, v)),
    BAD(ShapeError, addr(m, v, v)),
    BAD(ShapeError, addbmm(m, t, t)),
    BAD(ShapeError, baddbmm(t, t, t)),
    BAD(DtypeError, addmm(full({3, 3}, 1, {.dtype = f16}), m, m.t())),
    BAD(ShapeError, addmm_(v, m, m.t())),
    BAD(ValueError, addmm_(spread, m, full({4, 4}, 1))),
    BAD(ValueError, mm(none, m)),
    BAD(ValueError, einsum("ij,jk->ik", {m})),
    BAD(ValueError, einsum("ij->ik", {m})),
    BAD(ValueError, einsum("i1", {m})),
    BAD(ShapeError, einsum("ij,jk", {m, m})),
    BAD(ShapeError, einsum("ijk", {m})),
    BAD(ShapeError, einsum("i", {m})),
    BAD(ShapeError, einsum("ii", {m})),
    BAD(ValueError, einsum("ij->ii", {m})),
    BAD(ValueError, einsum("", {})),
    BAD(ShapeError, tensordot(m, m, 1)),
    BAD(ValueError, tensordot(m, m, 3)),
    BAD(ValueError, tensordot(m, m, {{0}, {0, 1}})),
    BAD(IndexError, tensordot(m, m, {{2}, {0}})),
    BAD(ValueError, multi_dot({m})),
    BAD(ShapeError, multi_dot({m, m})),
    BAD(ShapeError, multi_dot({m, v, m})),
    BAD(ValueError, chain_matmul({})),
    BAD(ShapeError, cross(m, m)),
    BAD(IndexError, cross(m.t(), m.t(), {.dim = 2})),
    BAD(ShapeError, bilinear(m, v, full({2, 4, 4}, 1))),
    BAD(ShapeError, bilinear(m, m, full({2, 4, 3}, 1))),
    BAD(ShapeError, prelu(m, full({3}, 1))),
};

const std::vector<BadCallRow> kIndexing{
    BAD(DtypeError, gather(m, 0, m)),
    BAD(IndexError, gather(m, 2, im)),
    BAD(IndexError, gather(v, 0, far)),
    BAD(IndexError, gather(v, 0, negative)),
    BAD(ShapeError, gather(m, 0, i)),
    BAD(ShapeError, gather(m, 0, zeros({2, 5}, {.dtype = i64}))),
    BAD(DtypeError, take_along_dim(m, m, 0)),
    BAD(IndexError, take_along_dim(v, far, 0)),
    BAD(IndexError, take_along_dim(m, im, 2)),
    BAD(ShapeError, take_along_dim(m, i, 0)),
    BAD(DtypeError, scatter(m, 0, m, m)),
    BAD(DtypeError, scatter(m, 0, im, wide)),
    BAD(IndexError, scatter(v, 0, far, v)),
    BAD(IndexError, scatter(v, 0, negative, 1.0)),
    BAD(IndexError, scatter(m, 2, im, m)),
    BAD(ShapeError, scatter(m, 0, im, v)),
    BAD(ShapeError, scatter(v, 0, i, full({3}, 1))),
    BAD(IndexError, scatter_add(v, 0, far, v)),
    BAD(ShapeError, scatter_add(v, 0, i, full({3}, 1))),
    BAD(ValueError, scatter_add_(spread, 0, im, m)),
    BAD(IndexError, index_select(m, 2, i)),
    BAD(IndexError, index_select(m, 0, far)),
    BAD(DtypeError, index_select(m, 0, v)),
    BAD(ShapeError, index_select(m, 0, im)),
    BAD(IndexError, index_add(m, 2, i, m)),
    BAD(IndexError, index_add(v, 0, far, v)),
    BAD(ShapeError, index_add(v, 0, i, full({3}, 1))),
    BAD(DtypeError, index_add(m, 1, i, wide)),
    BAD(IndexError, index(m, {far})),
    BAD(ShapeError, index(m, {i, i, i})),
    BAD(DtypeError, index(m, {v})),
    BAD(ShapeError, index(m, {i, zeros({3}, {.dtype = i64})})),
    BAD(ShapeError, index(m, {full({4}, 1, {.dtype = boolean})})),
    BAD(IndexError, index_put(m, {far}, s)),
    BAD(ShapeError, index_put(m, {i}, full({5}, 1))),
    BAD(ValueError, index_put_(spread, {i}, s)),
    BAD(ShapeError, masked_select(m, full({5}, 1, {.dtype = boolean}))),
    BAD(DtypeError, masked_select(m, m)),
    BAD(DtypeError, masked_fill(m, m, 1)),
    BAD(ShapeError, masked_fill(m, full({5}, 1, {.dtype = boolean}), 1)),
    BAD(ShapeError, masked_fill_(v, mask, 1)),
    BAD(DtypeError, where(m, m, m)),
    BAD(ShapeError, where(mask, m, full({5}, 1))),
    BAD(IndexError, embedding(far, m)),
    BAD(IndexError, embedding(negative, m)),
    BAD(DtypeError, embedding(v, m)),
    BAD(ShapeError, embedding(i, v)),
    BAD(ValueError, embedding(i, m, {.padding_idx = 3})),
    BAD(Error, embedding(i, none)),
    BAD(Error, gather(m, 0, none)),
};

const std::vector<BadCallRow> kElementwise{
    BAD(ShapeError, add(m, full({5}, 1))),
    BAD(ShapeError, m + full({2, 4}, 1)),
    BAD(ValueError, add(m, none)),
    BAD(ValueError, add(none, m)),
    BAD(ShapeError, add_(v, m)),
    BAD(ShapeError, mul_(s, m)),
    BAD(ValueError, add_(spread, m)),
    BAD(ValueError, mul_(spread, 2)),
    BAD(ValueError, spread.fill_(0)),
    BAD(ValueError, spread.copy_(m)),
    BAD(ValueError, relu_(spread)),
    BAD(ValueError, mul_(v.as_strided({3, 2}, {1, 1}), 2)),
    BAD(ValueError, v.as_strided({3, 2}, {1, 1}).fill_(0)),
    BAD(ValueError, v.as_strided({3, 2}, {1, 1}).copy_(full({3, 2}, 1))),
    BAD(ValueError, normal_(v.as_strided({2, 2}, {1, 1}))),
    BAD(ValueError, index_add_(spread, 0, tensor({0, 1, 2}, {.dtype = i64}), m)),
    BAD(ValueError, masked_fill_(spread, mask, 0)),
    BAD(ValueError, cumsum_(spread, 0)),
    BAD(ValueError, eq_(spread, m)),
    BAD(DtypeError, add_(i, v)),
    BAD(DtypeError, div_(i, 2)),
    BAD(ValueError, floor_divide(i, i)),
    BAD(ValueError, remainder(i, i)),
    BAD(ValueError, pow(i, negative)),
    BAD(DtypeError, mask - mask),
    BAD(DtypeError, addcdiv(i, i, i)),
    BAD(DtypeError, bitwise_and(m, m)),
    BAD(DtypeError, bitwise_not(m)),
    BAD(ValueError, clamp(m, {})),
    BAD(ValueError, clamp(m, none, none)),
    BAD(ShapeError, clamp(m, full({5}, 1), full({5}, 1))),
    BAD(ValueError, logit(m, 0.7)),
    BAD(ValueError, softplus(m, {.beta = 0})),
    BAD(ShapeError, glu(full({3, 3}, 1))),
    BAD(IndexError, glu(m, {.dim = 2})),
    BAD(ShapeError, glu(s)),
    BAD(ShapeError, lerp(m, full({5}, 1), m)),
    BAD(ShapeError, addcmul(m, m, full({5}, 1))),
    BAD(ShapeError, eq(m, full({5}, 1))),
    BAD(ValueError, dropout(m, {.p = 1.5})),
    BAD(ValueError, dropout(m, {.p = -0.1})),
    BAD(DtypeError, dropout(im)),
    BAD(ValueError, bernoulli_(m, 2)),
    BAD(ValueError, normal_(m, 0, -1)),
    BAD(ValueError, uniform_(m, 1, 0)),
    BAD(ValueError, randint_(m, 3, 3)),
    BAD(DtypeError, uniform_(i)),
    BAD(ValueError, uniform_(spread)),
    BAD(ValueError, zeros({-1})),
    BAD(ValueError, full({2, -3}, 1)),
    BAD(SizeError, zeros({std::int64_t{1} << 40, std::int64_t{1} << 40})),
    BAD(ValueError, arange(0.0, 5, 0)),
    BAD(ValueError, arange(0.0, 5, -1)),
    BAD(ValueError, linspace(0, 1, -1)),
    BAD(ValueError, eye(-1)),
    BAD(ValueError, randperm(-1)),
    BAD(ShapeError, tensor({1., 2, 3}, Shape{2, 2})),
    BAD(ShapeError, v.copy_(m)),
    BAD(StateError, exp_(full({2}, 1).requires_grad_())),
    BAD(StateError, full({2}, 1).requires_grad_().fill_(0)),
    BAD(DtypeError, full({2}, 1, {.dtype = i64}).requires_grad_()),
};

}  // namespace

TEST_CASE("bad attributes of views and joins", "[ops][bad]") { check_refused(kBadViews); }
TEST_CASE("bad operands of products", "[ops][bad]") { check_refused(kProducts); }
TEST_CASE("bad indices", "[ops][bad]") { check_refused(kIndexing); }
TEST_CASE("bad operands of elementwise ops, creation and in-place writes", "[ops][bad]") {
  check_refused(kElementwise);
}

TEST_CASE("every method of an undefined tensor throws and does not crash", "[ops][bad]") {
  const Tensor none, x = ones({2, 3});
  CHECK_FALSE(none.defined());
  CHECK_THROWS_AS(none.shape(), ValueError);
  CHECK_THROWS_AS(none.dim(), ValueError);
  CHECK_THROWS_AS(none.numel(), ValueError);
  CHECK_THROWS_AS(none.dtype(), ValueError);
  CHECK_THROWS_AS(none.device(), ValueError);
  CHECK_THROWS_AS(none.requires_grad(), ValueError);
  CHECK_THROWS_AS(none.requires_grad_(), ValueError);
  CHECK_THROWS_AS(none.version(), ValueError);
  CHECK_THROWS_AS(none.item<float>(), Error);
  CHECK_THROWS_AS(none.to(f16), ValueError);
  CHECK_THROWS_AS(none.view({1}), ValueError);
  CHECK_THROWS_AS(none.t(), ValueError);
  CHECK_THROWS_AS(none.backward(), Error);
  CHECK_THROWS_AS(none.grad(), ValueError);
  CHECK_THROWS_AS(none.detach(), ValueError);
  CHECK_THROWS_AS(none.clone(), ValueError);
  CHECK_THROWS_AS(none.contiguous(), ValueError);
  CHECK_THROWS_AS(matmul(x, none), ValueError);
  CHECK_THROWS_AS(add(x, none), ValueError);
  CHECK_THROWS_AS(where(none, x, x), ValueError);
  CHECK_THROWS_AS(cat({x, none}), Error);
  CHECK_THROWS_AS(cross_entropy(x, none), Error);
  CHECK_THROWS_AS(conv2d(none, x), ValueError);
  CHECK_THROWS_AS(gather(x, 0, none), Error);
  CHECK_THROWS_AS(scatter(x, 0, none, 1.0), Error);
  CHECK_THROWS_AS(embedding(none, x), ValueError);
  CHECK_THROWS_AS(sum(none), ValueError);
  CHECK_THROWS_AS(layer_norm(none, {3}), ValueError);
}
