// nn::models: sizes, options, heads that are replaced, files of GPT-2. ../golden/models.cpp
// compares them with those of torchvision and transformers.
#include "../io/files.h"
#include "../support/throws.h"
#include "support.h"

using namespace mezzo;
using nn::models::ResNet;

TEST_CASE("ResNets have torchvision's numbers of weights", "[models]") {
  CHECK(nn::models::resnet18().num_parameters() == 11689512);
  CHECK(nn::models::resnet34().num_parameters() == 21797672);
  CHECK(nn::models::resnet50().num_parameters() == 25557032);
  CHECK(ResNet({.depth = 101}).num_parameters() == 44549160);
}

TEST_CASE("ResNets of other widths and stems", "[models]") {
  const ResNet tiny({.num_classes = 7, .in_channels = 1, .width = 4, .small_images = true});
  CHECK(tiny(randn({2, 1, 16, 16})).shape() == Shape{2, 7});
  CHECK(tiny.parameter("conv1.weight").shape() == Shape{4, 1, 3, 3});
  CHECK_THROWS_WITH_AS_TEXT(ResNet({.depth = 20}), ValueError, "18, 34, 50, 101 or 152");
}

TEST_CASE("a block that starts as the identity passes its input on", "[models]") {
  const ResNet net({.width = 4, .zero_init_residual = true});
  CHECK(net.parameter("layer1.0.bn2.weight").abs().sum().item() == 0);
  CHECK(ResNet({.width = 4}).parameter("layer1.0.bn2.weight").min().item() == 1);
  const Tensor x = rand({2, 4, 8, 8});
  net.eval();
  CHECK(equal(net.stages[0](x), x));
}

TEST_CASE("a ResNet takes a new head for fine-tuning", "[models]") {
  nn::models::ResNet net({.width = 4});
  net.replace(net.fc, nn::Linear{32, 5});
  CHECK(net(rand({2, 3, 32, 32})).shape() == Shape{2, 5});
  CHECK(net.parameter("fc.weight").shape() == Shape{5, 32});
}

TEST_CASE("vision transformers of other sizes, with a new head", "[models]") {
  const nn::models::VisionTransformerOptions tiny{.image_size = 12,
                                                  .patch_size = 4,
                                                  .num_layers = 2,
                                                  .num_heads = 2,
                                                  .hidden_dim = 8,
                                                  .mlp_dim = 16,
                                                  .dropout = 0.5,
                                                  .num_classes = 7,
                                                  .in_channels = 1};
  nn::models::VisionTransformer net(tiny);
  const Tensor x = randn({2, 1, 12, 12});
  CHECK(equal(net(x), zeros({2, 7})));  // the head starts with zeros
  net.heads.replace("head", nn::Linear{8, 3});
  CHECK(net(x).shape() == Shape{2, 3});
  CHECK(!equal(net(x), net(x)));  // dropout
  net.eval();
  CHECK(equal(net(x), net(x)));
  // The class token sees the patches and their places.
  const Tensor moved = cat({x.narrow(3, 4, 8), x.narrow(3, 0, 4)}, 3);
  CHECK(!allclose(net(x), net(moved), {.atol = 1e-4}));
  sum(net(x)).backward();
  for (const nn::NamedTensor& p : net.named_parameters()) {
    INFO(p.name);
    CHECK(p.tensor.grad().defined());
  }
  CHECK_THROWS_WITH_AS_TEXT(net(randn({2, 1, 12, 16})), ShapeError, "12, 12]");
  CHECK_THROWS_WITH_AS_TEXT(nn::models::VisionTransformer({.image_size = 30}), ValueError,
                            "patch_size does not divide image_size");
  CHECK_THROWS_AS(nn::models::VisionTransformer({.patch_size = 0}), ValueError);
  CHECK_THROWS_AS(nn::models::VisionTransformer({.num_heads = 5}), ValueError);
  CHECK(nn::models::vit_b_16({.num_layers = 1}).num_parameters() == 86567656 - 11 * 7087872);
}

namespace {

using nn::models::GPT2LMHeadModel;

const nn::models::GPT2Options kTinyGpt{
    .vocab_size = 20, .n_positions = 10, .n_embd = 8, .n_layer = 2, .n_head = 2};

/** Returns a tiny GPT-2 in evaluation mode, with weights so large that attention is not uniform. */
GPT2LMHeadModel tiny_gpt(std::uint64_t seed) {
  manual_seed(seed);
  const GPT2LMHeadModel net(kTinyGpt);
  const NoGrad no_grad;
  for (const Tensor& p : net.parameters()) mul_(p, 10);
  net.eval();
  return net;
}

bool equal_weights(const GPT2LMHeadModel& a, const GPT2LMHeadModel& b) {
  const nn::StateDict values = b.state_dict();
  for (const auto& [name, value] : a.state_dict())
    if (!equal(value, values[name])) return false;
  return true;
}

}  // namespace

TEST_CASE("GPT-2 gives the same results with and without a key-value cache", "[models]") {
  CHECK(GPT2LMHeadModel({.n_layer = 1}).num_parameters() == 124439808 - 11 * 7087872);
  const GPT2LMHeadModel net = tiny_gpt(3);
  const NoGrad no_grad;
  const Tensor tokens = randint(0, 20, {3, 10}), whole = net(tokens);
  for (const std::vector<std::int64_t>& parts :
       std::vector<std::vector<std::int64_t>>{{10}, {1, 9}, {4, 1, 1, 4}, {9, 1}}) {
    nn::KeyValueCache cache;
    std::vector<Tensor> logits;
    for (const std::int64_t part : parts)
      logits.push_back(net(tokens.narrow(1, cache.seen, part), &cache));
    CHECK(allclose(cat(logits, 1), whole, {.rtol = 1e-4, .atol = 1e-4}));
    CHECK_THROWS_AS(net(tokens.narrow(1, 0, 1), &cache), IndexError);  // beyond n_positions
  }
  // A token does not see later ones.
  CHECK(allclose(net(tokens.narrow(1, 0, 4)), whole.narrow(1, 0, 4), {.rtol = 1e-4, .atol = 1e-4}));
  CHECK_THROWS_AS(net(tokens[0]), ShapeError);
  CHECK_THROWS_AS(net(tokens + 20), IndexError);
  CHECK_THROWS_WITH_AS_TEXT(GPT2LMHeadModel({.n_head = 5}), ValueError, "does not divide");
  CHECK_THROWS_AS(GPT2LMHeadModel({.n_layer = 0}), ValueError);
  CHECK_THROWS_AS(GPT2LMHeadModel({.attn_pdrop = 2}), ValueError);
}

TEST_CASE("files of GPT-2 with and without prefix, head and masks", "[models]") {
  const files::Directory directory;
  const std::string path = directory.path() + "/gpt2.safetensors";
  const GPT2LMHeadModel net = tiny_gpt(1);
  const auto stored = [&](bool prefix, bool head, bool masks) {
    NamedTensors tensors;
    for (const auto& [name, value] : net.state_dict()) {
      if (name == "lm_head.weight" && !head) continue;
      const bool inner = name.starts_with("transformer.");
      tensors.emplace_back(inner && !prefix ? name.substr(12) : name, value.clone());
    }
    if (masks) tensors.emplace_back("h.1.attn.bias", tril(ones({1, 1, 10, 10})));
    if (masks) tensors.emplace_back("h.1.attn.masked_bias", tensor(-1e4));
    return tensors;
  };
  for (const bool prefix : {false, true})
    for (const bool head : {false, true})
      for (const bool masks : {false, true}) {
        INFO(prefix << head << masks);
        save_tensors(path, stored(prefix, head, masks));
        const GPT2LMHeadModel other = tiny_gpt(2);
        CHECK(!equal_weights(net, other));
        nn::models::load_gpt2(path, other);
        CHECK(equal_weights(net, other));
      }
  const GPT2LMHeadModel other = tiny_gpt(2), same = tiny_gpt(2);
  NamedTensors wrong_head = stored(true, true, false);
  wrong_head.back().second = wrong_head.back().second + 1;
  save_tensors(path, wrong_head);
  CHECK_THROWS_WITH_AS_TEXT(nn::models::load_gpt2(path, other), ValueError,
                            "lm_head.weight differs");
  NamedTensors less = stored(false, false, false);
  less.pop_back();
  save_tensors(path, less);
  CHECK_THROWS_WITH_AS_TEXT(nn::models::load_gpt2(path, other), ValueError,
                            "transformer.ln_f.bias");
  CHECK(equal_weights(same, other));
}
