// first: the program of README.md, a training in mixed precision on one page.
#include <mezzo.h>
#include <cstdio>
using namespace mezzo;

struct Mlp : nn::Model<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{784, 128});
  nn::Linear fc2 = add("fc2", nn::Linear{128, 10});
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x.flatten(1)))); }
};

int main() {
  manual_seed(2);
  const Device device = Device::best();  // a GPU if there is one; or cpu, Device::parse("cuda")
  Mlp model;
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 3e-3});
  auto session = amp::initialize(model, optimizer, {.opt_level = "O1"});
  const data::Dataset digits = data::synthetic_digits(3000, 1);  // or data::mnist(folder).train
  const data::Dataset train = digits.slice(0, 2000), test = digits.slice(2000, 1000);
  data::Batches batches = train.batches({.size = 64, .device = device});
  for (int epoch = 1; epoch <= 3; ++epoch) {
    Tensor loss;
    int skipped = 0;
    for (const Batch& batch : batches) {
      loss = cross_entropy(model(batch.x), batch.y);
      optimizer.zero_grad();
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      skipped += optimizer.step() == optim::StepResult::skipped;  // overflow: a lower loss scale
    }
    const NoGrad no_grad;
    const Tensor right = argmax(model(test.x().to(device)), {.dim = 1}) == test.y().to(device);
    std::printf("epoch %d: loss %.1f, accuracy %.0f %%, %d steps skipped\n", epoch, loss.item(),
                100 * right.to(f32).mean().item(), skipped);
  }
}
