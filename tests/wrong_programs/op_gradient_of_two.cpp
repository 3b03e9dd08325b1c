// error: a differentiable op of several operands needs
#include <mezzo.h>

using namespace mezzo;

struct Bell {
  static constexpr OpTraits traits{
      .name = "bell", .precision = Precision::f32, .summary = "a b", .inputs = 2};
  template <class V> static V forward(const V& a, const V& b) { return a * b; }
};
int main() { return apply<Bell>(ones({2}), ones({2})).dim(); }
