// Compares models with those of torchvision and of transformers: names and shapes of their weights,
// and results in f64.
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

const LoadedTensors& stored_models() {
  static const LoadedTensors file = load_tensors(str(folder(), "/models.safetensors"));
  return file;
}

/** Fills a net as result_of() of models.py does, and compares its result. */
template <class Net> void compare_model(const std::string& name, const Net& net, const Tensor& x) {
  INFO(name);
  CHECK(keys(net) == stored_models().metadata.at(name));
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
  const Tensor got = net(x);
  const Tensor wanted = nn::StateDict(stored_models().tensors)[name];
  CHECK(wanted.norm().item() > 0.1);
  CHECK(allclose(got, wanted, {.rtol = 1e-9, .atol = 1e-9}));
}

Tensor images() { return drawn(0, {2, 3, kPixels, kPixels}, f64); }

}  // namespace

TEST_CASE("ResNets compute what torchvision's do", "[golden]") {
  compare_model("resnet18", nn::models::resnet18(), images());
  compare_model("resnet34", nn::models::resnet34(), images());
  compare_model("resnet50", nn::models::resnet50(), images());
}

TEST_CASE("vision transformers compute what torchvision's do", "[golden]") {
  const nn::models::VisionTransformer small({.image_size = kPixels,
                                             .patch_size = 8,
                                             .num_layers = 2,
                                             .num_heads = 4,
                                             .hidden_dim = 64,
                                             .mlp_dim = 128,
                                             .num_classes = 10});
  compare_model("vit_small", small, images());
  CHECK(keys(nn::models::vit_b_16()) == stored_models().metadata.at("vit_b_16"));
}

TEST_CASE("GPT-2 computes what transformers does", "[golden]") {
  const nn::models::GPT2LMHeadModel small(
      {.vocab_size = 50, .n_positions = 12, .n_embd = 64, .n_layer = 2, .n_head = 4});
  const Tensor tokens = (arange(18, {.dtype = i64}) * 7 % 50).view({2, 9});
  compare_model("gpt2_small", small, tokens);
  CHECK(keys(nn::models::gpt2()) == stored_models().metadata.at("gpt2"));
}

}  // namespace golden
