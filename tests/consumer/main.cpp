// A user's program, built and run by the test of installation.
#include <mezzo.h>

#include <cstdio>

int main() {
  using namespace mezzo;
  const Tensor x = tensor({0.5, 1.0, 2.0}, {.requires_grad = true});
  sum(mul(x, x)).backward();
  if (x.grad().to_vector<double>() != std::vector<double>{1.0, 2.0, 4.0}) return 1;
  try {
    add(x, ones({2}));
  } catch (const ShapeError&) {  // exceptions keep their type across the library boundary
    std::puts("consumer: works");
  }
}
