// error: AdamOptions
#include <mezzo.h>

using namespace mezzo;

int main() {
  const nn::Linear model(4, 2);
  optim::Adam optimizer(model.parameters(), optim::AdamOptions{.lr_rate = 1e-3});
}
