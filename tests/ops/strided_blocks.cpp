// Elementwise ops on operands that are larger than a block, with broadcast and strided operands.
#include <mezzo.h>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using cases::same_bits;

namespace {

/** Returns op(a, b) of operands that were expanded and copied first. */
template <class F> Tensor of_copies(F&& op, const Tensor& a, const Tensor& b, const Shape& shape) {
  return op(a.expand(shape).contiguous(), b.expand(shape).contiguous());
}

Tensor block_values(DType dtype, const Shape& shape) {
  const Tensor x = randn(shape) * 3.0;
  return dtype == DType::boolean ? gt(x, 0.0) : is_floating(dtype) ? x.to(dtype) : abs(x).to(dtype);
}

}  // namespace

TEST_CASE("operands that repeat in rows give the values of their copies", "[elementwise]") {
  manual_seed(1);
  const auto sum = [](const Tensor& a, const Tensor& b) { return a + b; };
  for (const DType dtype : {f32, f64, bf16, f16, DType::i64, DType::u8})
    for (const std::int64_t row : {1, 3, 100, 700, 1000, 1024, 1025, 3000}) {
      const std::int64_t rows = 70000 / row + 1;  // more than one part for the threads
      const Tensor x = block_values(dtype, {rows, row}), in_row = block_values(dtype, {row}),
                   in_column = block_values(dtype, {rows, 1});
      INFO(name(dtype) << ", rows of " << row);
      for (const Tensor& other : {in_row, in_column}) {
        CHECK(same_bits(x + other, of_copies(sum, x, other, x.shape())));
        CHECK(same_bits(other + x, of_copies(sum, other, x, x.shape())));
      }
      CHECK(same_bits(in_row + in_column, of_copies(sum, in_row, in_column, x.shape())));
    }
}

TEST_CASE("dimensions are merged only where all operands step through them", "[elementwise]") {
  manual_seed(2);
  const Shape shape{6, 1, 20, 5, 40};
  const auto sum = [](const Tensor& a, const Tensor& b) { return a + b; };
  const Tensor x = randn(shape);
  const Tensor others[] = {randn({6, 1, 20, 5, 80}).slice(4, 0, 80, 2),
                           randn({6, 2, 20, 5, 40}).select(1, 1).unsqueeze(1),
                           randn({20, 6, 1, 5, 40}).permute({1, 2, 0, 3, 4}),
                           randn({6, 1, 20, 1, 40}),
                           randn({20, 5, 1}),
                           randn({6, 1, 1, 1, 1}),
                           randn({40, 5, 20, 1, 6}).permute({4, 3, 2, 1, 0})};
  for (const Tensor& other : others) CHECK(same_bits(x + other, of_copies(sum, x, other, shape)));
  const Tensor target = zeros({6, 2, 20, 5, 40});
  target.select(1, 1).unsqueeze(1).copy_(x);
  target.select(1, 1).unsqueeze(1).add_(others[2]);
  CHECK(same_bits(target.select(1, 1).unsqueeze(1).contiguous(),
                  of_copies(sum, x, others[2], shape)));
}

TEST_CASE("comparisons and logic of bytes give those of i64", "[elementwise]") {
  manual_seed(3);
  using Op = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Op> ops[] = {
      {"eq", [](const Tensor& a, const Tensor& b) { return eq(a, b); }},
      {"ne", [](const Tensor& a, const Tensor& b) { return ne(a, b); }},
      {"lt", [](const Tensor& a, const Tensor& b) { return lt(a, b); }},
      {"ge", [](const Tensor& a, const Tensor& b) { return ge(a, b); }},
      {"logical_and", [](const Tensor& a, const Tensor& b) { return logical_and(a, b); }},
      {"logical_or", [](const Tensor& a, const Tensor& b) { return logical_or(a, b); }},
      {"logical_xor", [](const Tensor& a, const Tensor& b) { return logical_xor(a, b); }},
      {"logical_not", [](const Tensor& a, const Tensor&) { return logical_not(a); }},
      {"isfinite", [](const Tensor& a, const Tensor&) { return isfinite(a); }},
      {"isinf", [](const Tensor& a, const Tensor&) { return isinf(a); }}};
  for (const auto& [text, op] : ops)
    for (const DType dtype : {DType::boolean, DType::u8})
      for (const bool strided : {false, true}) {
        INFO(text << " of " << name(dtype) << (strided ? ", strided" : ""));
        Tensor a = randint(0, 4, {50, 60}).to(dtype), b = randint(0, 4, {60}).to(dtype);
        if (strided) a = a.t().contiguous().t();
        const Tensor got = op(a, b);
        CHECK(got.dtype() == DType::boolean);
        CHECK(same_bits(got, op(a.to(DType::i64), b.to(DType::i64))));
      }
  const Tensor a = randint(0, 256, {3000}).to(DType::u8), b = randint(0, 256, {3000}).to(DType::u8);
  CHECK(same_bits(a & b, (a.to(DType::i64) & b.to(DType::i64)).to(DType::u8)));
  CHECK(same_bits(a ^ b, (a.to(DType::i64) ^ b.to(DType::i64)).to(DType::u8)));
  CHECK(same_bits(~a, (~a.to(DType::i64)).to(DType::u8)));
}

TEST_CASE("long lines are flipped and vectors multiplied by cross", "[elementwise]") {
  manual_seed(4);
  const Tensor x = randn({9, 2001});
  const std::vector<float> from = x.to_vector<float>(),
                           to = flip(x, {1}).contiguous().to_vector<float>();
  for (std::size_t row = 0; row < 9; ++row)
    for (std::size_t i = 0; i < 2001; i += 97)
      CHECK(to[row * 2001 + i] == from[row * 2001 + 2000 - i]);
  const Tensor a = randn({3000, 3}), b = randn({3000, 3});
  CHECK(same_bits(cross(a, b, {1}),
                  cross(a.t().contiguous(), b.t().contiguous(), {0}).t().contiguous()));
}
