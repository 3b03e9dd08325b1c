// error: static V forward(const V& x)
#include <mezzo.h>

using namespace mezzo;

struct Bell {
  static constexpr OpTraits traits{.name = "bell", .precision = Precision::f32, .summary = "x^2"};
};
int main() { return apply<Bell>(ones({2})).dim(); }
