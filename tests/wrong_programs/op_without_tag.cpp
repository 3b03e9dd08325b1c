// error: static constexpr OpTraits traits
#include <mezzo.h>

using namespace mezzo;

struct Bell {
  template <class V> static V forward(const V& x) { return x * x; }
};
int main() { return apply<Bell>(ones({2})).dim(); }
