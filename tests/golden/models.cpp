// Compares models with torchvision's: names and shapes of their weights, and results in f64.
#include <cmath>

#include "../nn/support.h"
#include "drawn.h"
#include "folder.h"

namespace golden {

namespace {

using namespace mezzo;

constexpr std::int64_t kPixels = 40;  // as in models.py

/** Returns the values of the k-th tensor, as filled() of models.py does. */
Tensor filled(std::size_t k, const std::string& name, const Shape& shape) {
  const Tensor values = drawn(k, shape, f64);
  if (shape.rank() > 1)
    return values *
           std::sqrt(3.0 * static_cast<double>(shape[0]) / static_cast<double>(values.numel()));
  return values * 0.1 + (name.ends_with("weight") || name.ends_with("var") ? 1 : 0);
}

void compare(const std::string& name, const nn::models::ResNet& net) {
  INFO(name);
  static const LoadedTensors stored = load_tensors(str(folder(), "/models.safetensors"));
  CHECK(keys(net) == stored.metadata.at(name));
  net.to(f64);
  nn::StateDict state = net.state_dict();
  std::size_t k = 0;
  for (const std::string& key : state.names()) {
    const Tensor value = state[key];
    if (is_floating(value.dtype())) state.set(key, filled(k, key, value.shape()));
    ++k;
  }
  net.load_state_dict(state);
  net.eval();
  const NoGrad no_grad;
  const Tensor got = net(drawn(0, {2, 3, kPixels, kPixels}, f64));
  const Tensor wanted = nn::StateDict(stored.tensors)[name];
  CHECK(wanted.norm().item() > 0.1);
  CHECK(allclose(got, wanted, {.rtol = 1e-9, .atol = 1e-9}));
}

}  // namespace

TEST_CASE("ResNets compute what torchvision's do", "[golden]") {
  compare("resnet18", nn::models::resnet18());
  compare("resnet34", nn::models::resnet34());
  compare("resnet50", nn::models::resnet50());
}

}  // namespace golden
