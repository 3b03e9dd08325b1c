// error: name the options: nn::Softplus{.beta = 2, .threshold = 20}
#include <mezzo.h>

int main() {
  const mezzo::nn::Hardtanh limited{-2, 2};
  return limited(mezzo::zeros({2})).item<int>();
}
