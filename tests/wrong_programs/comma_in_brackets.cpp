// error: top-level comma expression in array subscript is deprecated
#include <mezzo.h>

int main() {
  const mezzo::Tensor x = mezzo::zeros({2, 2});
  return x[0, 1].item<int>();
}
