// C++ numbers as operands, converted into tensors and out of them: how they are rounded, and that
// integers stay exact.
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using cases::same_bits;
using cases::test_device;

namespace {

/** Returns every pattern of a 16-bit dtype. */
Tensor every_pattern(DType dtype) {
  const Tensor x = empty({65536}, {.dtype = dtype});
  auto* bits = static_cast<std::uint16_t*>(x.raw_data());
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
  return x.to(test_device());
}

/** A discontinuous function of a tensor and a number (or a 0-dim tensor). */
struct Step {
  const char* name;
  Tensor (*of)(const Tensor& x, const Tensor& number);
};

#define IN_PLACE(call)                   \
  [](const Tensor& x, const Tensor& n) { \
    const Tensor self = x.clone();       \
    call;                                \
    return self;                         \
  }

Tensor gradient_of_clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  const Tensor leaf = x.clone().requires_grad_();
  return grad(sum(clamp(leaf, low, high)), leaf);
}

constexpr DivOptions kFloor{.rounding = Rounding::floor}, kTrunc{.rounding = Rounding::trunc};

const Step kSteps[] = {
    {"eq", [](const Tensor& x, const Tensor& n) { return x == n; }},
    {"ne", [](const Tensor& x, const Tensor& n) { return x != n; }},
    {"lt", [](const Tensor& x, const Tensor& n) { return x < n; }},
    {"le", [](const Tensor& x, const Tensor& n) { return x <= n; }},
    {"gt", [](const Tensor& x, const Tensor& n) { return x > n; }},
    {"ge", [](const Tensor& x, const Tensor& n) { return x >= n; }},
    {"lt, number first", [](const Tensor& x, const Tensor& n) { return n < x; }},
    {"eq_", IN_PLACE(eq_(self, n))},
    {"ne_", IN_PLACE(ne_(self, n))},
    {"lt_", IN_PLACE(lt_(self, n))},
    {"le_", IN_PLACE(le_(self, n))},
    {"gt_", IN_PLACE(gt_(self, n))},
    {"ge_", IN_PLACE(ge_(self, n))},
    {"fmod", [](const Tensor& x, const Tensor& n) { return fmod(x, n); }},
    {"fmod_", IN_PLACE(fmod_(self, n))},
    {"remainder", [](const Tensor& x, const Tensor& n) { return remainder(x, n); }},
    {"remainder_", IN_PLACE(remainder_(self, n))},
    {"floor_divide", [](const Tensor& x, const Tensor& n) { return floor_divide(x, n); }},
    {"floor_divide_", IN_PLACE(floor_divide_(self, n))},
    {"div, floor", [](const Tensor& x, const Tensor& n) { return div(x, n, kFloor); }},
    {"div, trunc", [](const Tensor& x, const Tensor& n) { return div(x, n, kTrunc); }},
    {"div_, floor", IN_PLACE(div_(self, n, kFloor))},
    {"div_, trunc", IN_PLACE(div_(self, n, kTrunc))},
};

}  // namespace

TEST_CASE("discontinuous functions convert a number to the dtype of a 16-bit tensor",
          "[ops][numbers]") {
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = every_pattern(dtype);
    for (const double number : {0.1, 1.0 / 3, 2.7, -0.7, 2049.3, 1e5}) {
      const Tensor exact = tensor(number, {.dtype = f64, .device = test_device()});
      const Tensor rounded = exact.to(dtype).view({1});
      for (const Step& step : kSteps) {
        INFO(step.name << " of " << name(dtype) << " and " << number);
        const Tensor expected = step.of(x, rounded);
        CHECK(same_bits(step.of(x, operand(number)), expected));
        CHECK(same_bits(step.of(x, exact), expected));
      }
      INFO(name(dtype) << " and " << number);
      const double taken = rounded.item<double>();
      const Tensor high = rounded + 1;
      CHECK(same_bits(gradient_of_clamp(x, operand(number), high),
                      gradient_of_clamp(x, operand(taken), high)));
      CHECK(same_bits(hardshrink(x, {.lambda = std::fabs(number)}),
                      hardshrink(x, {.lambda = std::fabs(taken)})));
    }
  }
}

TEST_CASE("a 16-bit tensor equals the number it was filled with", "[ops][numbers]") {
  const Tensor x = full({2}, 0.1, {.dtype = f16, .device = test_device()});
  CHECK((x == 0.1).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK((x >= 0.1).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK((x < 0.1).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK((0.1 == x).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(fmod(x, 0.1).to_vector<double>() == std::vector<double>{0, 0});
  // Two tensors with dimensions promote to the wider dtype: nothing is rounded.
  const Tensor wide = full({2}, 0.1, {.device = test_device()});
  CHECK((x == wide).to_vector<bool>() == std::vector<bool>{false, false});
  // Smooth arithmetic uses the number as it is and rounds once.
  CHECK((x * 0.3).to_vector<double>() == (x.to(f32) * 0.3).to(f16).to_vector<double>());
}

TEST_CASE("integers convert to an i64 tensor exactly", "[ops][numbers]") {
  constexpr std::int64_t big = (std::int64_t{1} << 53) + 1;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = -most - 1;
  using List = std::vector<std::int64_t>;
  const TensorOptions wide{.dtype = i64, .device = test_device()};
  CHECK(arange(0x1p53, 0x1p53 + 4, 1, wide).to_vector<std::int64_t>() ==
        List{big - 1, big, big + 1, big + 2});
  CHECK(arange(big, big + 3, 1, wide).to_vector<std::int64_t>() == List{big, big + 1, big + 2});
  CHECK(arange(big, big - 5, -2, wide).to_vector<std::int64_t>() == List{big, big - 2, big - 4});
  CHECK(arange(least, most, most, wide).to_vector<std::int64_t>() == List{least, -1, most - 1});
  CHECK(arange(most, least, least, wide).to_vector<std::int64_t>() == List{most, -1});
  CHECK(arange(3, 3, 1, wide).numel() == 0);
  CHECK(tensor({big, most, least}, wide).to_vector<std::int64_t>() == List{big, most, least});
  CHECK(tensor({big, least}, {2, 1}, wide).to_vector<std::int64_t>() == List{big, least});
  CHECK(tensor(big, wide).item<std::int64_t>() == big);
  CHECK(tensor(big, wide).dim() == 0);
  CHECK(same_bits(arange(4.0, {.device = test_device()}),
                  tensor({0.0, 1.0, 2.0, 3.0}, {.device = test_device()})));
  // f32 rounds once. Through f64 the last digit would be lost and the tie round down.
  constexpr std::int64_t near_tie = (std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1;
  CHECK(tensor({near_tie}, {.dtype = f32}).to_vector<double>() ==
        std::vector<double>{0x1p54 + 0x1p31});
  CHECK(tensor({300, -1}, {.dtype = u8}).to_vector<int>() == std::vector<int>{255, 0});
  CHECK_THROWS_AS(arange(0, 5, -1, wide), ValueError);
  CHECK_THROWS_AS(arange(5, 0, 1, wide), ValueError);
  CHECK_THROWS_AS(arange(0, 5, 0, wide), ValueError);
  CHECK_THROWS_AS(arange(least, most, 1, wide), SizeError);
  CHECK_THROWS_AS(tensor({1., 2}, {3}), ShapeError);
}

namespace {

template <class T> bool is_same(T a, T b) {
  return a == b || (std::isnan(static_cast<double>(a)) && std::isnan(static_cast<double>(b)));
}

/** Returns whether T, an integer type, does not hold an integer of x. */
template <class T> bool any_out_of_range(const Tensor& x) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>)
    if (!is_floating(x.dtype()))
      for (const std::int64_t i : x.to_vector<std::int64_t>())
        if (!std::in_range<T>(i)) return true;
  return false;
}

template <class T> void compare_reading(const Tensor& x) {
  if (any_out_of_range<T>(x)) {
    CHECK_THROWS_AS(x.to_vector<T>(), ValueError);
    return;
  }
  const Tensor expected = x.to(dtype_of<T>());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    INFO("element " << i << " of " << str(x) << " as " << name(dtype_of<T>()));
    const T value = expected.data<T>()[i];
    const T item = x[i].item<T>(), listed = x.to_vector<T>()[static_cast<std::size_t>(i)];
    CHECK(is_same(item, value));
    CHECK(is_same(listed, value));
  }
}

}  // namespace

TEST_CASE("item and to_vector convert like to(), and refuse integers out of range",
          "[ops][numbers]") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor values = tensor({0.0, 0.5, -0.5, -1.5, 255.9, 300.0, -3.0, 1e10, -1e10, 9.3e18, 1e30,
                                -1e30, inf, -inf, std::nan("")},
                               {.dtype = f64});
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32, u8, boolean}) {
    const Tensor x = values.to(dtype);
    compare_reading<bool>(x);
    compare_reading<std::uint8_t>(x);
    compare_reading<int>(x);
    compare_reading<std::int64_t>(x);
    compare_reading<float>(x);
    compare_reading<double>(x);
  }
  CHECK(tensor(1e10).item<int>() == std::numeric_limits<int>::max());
  CHECK(tensor(300.0).item<std::uint8_t>() == 255);
  CHECK(tensor(std::nan("")).item<int>() == 0);
}
