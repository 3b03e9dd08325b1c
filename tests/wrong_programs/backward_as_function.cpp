// error: member function
#include <mezzo.h>

using namespace mezzo;

int main() {
  const Tensor loss = ones({2}).requires_grad_().sum();
  loss.backward;
}
