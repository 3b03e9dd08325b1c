// What a failed comparison of these tests says: the first place that differs.
#include <mezzo.h>

#include <limits>

#include "samples.h"

using namespace mezzo;
using cases::all_agree, cases::same_bits, cases::same_numbers;

TEST_CASE("a failed comparison names the first place, both numbers and how many differ",
          "[comparison]") {
  const Tensor x = tensor({1.0, 2.0, 3.0, -4.0, 5.0, 6.0}, {2, 3}).to(f32), y = x.clone();
  CHECK(same_bits(x, y));
  CHECK(same_bits(x, y).text == "the same");
  y[0][2].fill_(3.0 + 0x1p-21);
  y[1][1].fill_(7);
  CHECK(same_bits(y, x).text ==
        "[0, 2]: got 3.000000476837158, expected 3, 2 ulps apart; 2 of 6 "
        "differ");
  CHECK(same_bits(y, x, x * 2).text ==
        "[0, 2]: got 3.000000476837158, expected 3, of operand 6, "
        "2 ulps apart; 2 of 6 differ");
  CHECK_FALSE(same_numbers(y, x));
  CHECK(same_bits(x, x.to(f64)).text == "got f32 [2,3], expected f64 [2,3]");
  CHECK(all_agree({x, y}, {x, x}, [](const Tensor& a, const Tensor& b) {
          return same_bits(a, b);
        }).text.rfind("result 1 at [0, 2]: ", 0) == 0);
}

TEST_CASE("ulps count across zero; nan, zeros and integers have none", "[comparison]") {
  const auto text = [](double got, double expected, DType dtype) {
    return same_bits(tensor({got}).to(dtype), tensor({expected}).to(dtype)).text;
  };
  CHECK(text(0x1p-24, -0x1p-24, f16) ==
        "[0]: got 5.960464477539063e-08, expected "
        "-5.960464477539063e-08, 2 ulps apart; 1 of 1 differ");
  CHECK(text(1.0, 1.0078125, bf16) ==
        "[0]: got 1, expected 1.0078125, 1 ulps apart; 1 of 1 differ");
  CHECK(text(0.0, -0.0, f64) == "[0]: got 0, expected -0, 0 ulps apart; 1 of 1 differ");
  CHECK(text(NAN, 1.0, f32) == "[0]: got nan, expected 1; 1 of 1 differ");
  CHECK(text(3, 4, DType::i64) == "[0]: got 3, expected 4; 1 of 1 differ");
}
