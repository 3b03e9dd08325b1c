// Compares transforms of images with stored results of torchvision.
#include "../support/catch.h"
#include "drawn.h"
#include "folder.h"

using namespace mezzo;

namespace golden {

namespace {

struct Case {
  const char* name;
  data::Transform transform;
  Shape shape;
};

/** As CASES of transforms.py. */
std::vector<Case> cases() {
  const Shape image{3, 11, 16};
  return {
      {"Resize smaller", data::Resize{7}, image},
      {"Resize larger", data::Resize{20}, image},
      {"Resize tall", data::Resize{5}, {1, 23, 9}},
      {"Resize both", data::Resize{6, 21}, image},
      {"CenterCrop", data::CenterCrop{6}, image},
      {"CenterCrop odd", data::CenterCrop{{4, 9}}, image},
      {"CenterCrop larger", data::CenterCrop{{14, 7}}, image},
      {"RandomResizedCrop wide",
       data::RandomResizedCrop{.size = {5, 8}, .scale = {1, 1}},
       {3, 6, 50}},
      {"RandomResizedCrop tall", data::RandomResizedCrop{.size = 9, .scale = {1, 1}}, {3, 41, 7}}};
}

}  // namespace

TEST_CASE("images are transformed as by torchvision") {
  std::map<std::string, Tensor> stored;
  for (auto& [name, x] : load_tensors(str(folder(), "/transforms.safetensors")).tensors)
    stored[name] = x;
  std::size_t k = 0;
  for (const Case& c : cases()) {
    INFO(c.name);
    const Tensor numbers = drawn(k++, c.shape, f64);
    const Tensor wanted = stored.at(c.name), got = c.transform(numbers.to(f32));
    REQUIRE(got.shape() == wanted.shape());
    CHECK(max(abs(got - wanted)).item() <= 2e-6);
    const Tensor bytes = stored.at(str(c.name, ":u8")),
                 of_bytes = c.transform((numbers * 127 + 128).to(u8));
    REQUIRE(of_bytes.dtype() == u8);
    REQUIRE(of_bytes.shape() == bytes.shape());
    // A half may be rounded to the other side, as sums have another order.
    CHECK(max(abs(of_bytes.to(f32) - bytes.to(f32))).item() <= 1);
    CHECK(mean(abs(of_bytes.to(f32) - bytes.to(f32))).item() <= 0.01);
  }
  CHECK(stored.size() == 2 * k);
}

}  // namespace golden
