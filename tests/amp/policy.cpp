#include <mezzo.h>

#include "../support/catch.h"

using namespace mezzo;

namespace {

using Text = std::string;

template <class T> Text text(const std::optional<T>& value) {
  return value ? str(*value, "") : "unset";
}

/** Returns the texts of a level's properties. */
std::vector<Text> cells(std::string_view name) {
  const amp::Level& level = *amp::find_level(name);
  return {text(level.cast_model_type),
          text(std::optional(level.patch_functions)),
          text(level.keep_batchnorm_fp32),
          text(level.master_weights),
          level.loss_scale == amp::kDynamic ? "dynamic" : amp::scale_text(level.loss_scale),
          text(level.low)};
}

}  // namespace

TEST_CASE("the levels match the expected table") {
  CHECK(cells("O0") == std::vector<Text>{"f32", "false", "unset", "false", "1.0", "unset"});
  CHECK(cells("O1") == std::vector<Text>{"unset", "true", "unset", "unset", "dynamic", "f16"});
  CHECK(cells("O2") == std::vector<Text>{"f16", "false", "true", "true", "dynamic", "unset"});
  CHECK(cells("O3") == std::vector<Text>{"f16", "false", "false", "false", "1.0", "unset"});
  CHECK(cells("O4") == std::vector<Text>{"unset", "true", "unset", "unset", "1.0", "bf16"});
  CHECK(cells("O5") == std::vector<Text>{"bf16", "false", "true", "true", "1.0", "unset"});
  CHECK(amp::find_level("O6") == nullptr);
  CHECK(amp::find_level("") == nullptr);
}

TEST_CASE("tags and the casting state determine actions") {
  using amp::Action;
  CHECK(amp::action(Precision::match, true) == Action::keep);
  CHECK(amp::action(Precision::low, true) == Action::to_low);
  CHECK(amp::action(Precision::f32, true) == Action::to_f32);
  CHECK(amp::action(Precision::promote, true) == Action::promote);
  CHECK(amp::action(Precision::banned, true) == Action::refuse);
  CHECK(amp::action(Precision::match, false) == Action::keep);
  CHECK(amp::action(Precision::low, false) == Action::keep);
  CHECK(amp::action(Precision::f32, false) == Action::keep);
  CHECK(amp::action(Precision::promote, false) == Action::promote);
  CHECK(amp::action(Precision::banned, false) == Action::keep);
}

TEST_CASE("f64, integers and bool are never eligible") {
  CHECK(amp::eligible(f16));
  CHECK(amp::eligible(bf16));
  CHECK(amp::eligible(f32));
  for (const DType t : {f64, i64, i32, u8, boolean}) CHECK_FALSE(amp::eligible(t));
}

TEST_CASE("a recomputed function runs under the overrides of its first run") {
  using Override = std::initializer_list<std::pair<std::string_view, Precision>>;
  const Override all[] = {{},
                          {{"softmax", Precision::match}},
                          {{"softmax", Precision::match}, {"exp", Precision::low}},
                          {{"matmul", Precision::f32}}};
  const Tensor w = randn({4, 4});
  const auto f = [w](const Tensor& x) { return softmax(exp(matmul(x, w)), 1); };
  const auto gradient = [&](const Override& forward, const Override& backward, bool recomputes) {
    const Tensor x = full({4, 4}, 0.3).requires_grad_();
    w.requires_grad_();
    w.set_grad({});
    Tensor y;
    {
      const amp::autocast on;
      const amp::policy_override outer{{"matmul", Precision::low}};
      const amp::policy_override inner(forward);
      y = recomputes ? nn::checkpoint(f, x) : f(x);
    }
    {
      const amp::policy_override unrelated(backward);
      sum(square(y.to(f32))).backward();
    }
    std::vector<double> out = x.grad().to_vector<double>();
    for (const double g : w.grad().to_vector<double>()) out.push_back(g);
    return out;
  };
  for (const Override& forward : all) {
    const std::vector<double> expected = gradient(forward, {}, false);
    for (const Override& backward : all) CHECK(gradient(forward, backward, true) == expected);
  }
}
