// Adafactor: its states and their saving, layouts, options. ../golden/training.cpp compares it with
// PyTorch's, the campaigns over ../support/optimizers.h run it under mixed precision.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"
#include "parameters.h"

using namespace mezzo;
using optim::Adafactor;

namespace {

Tensor made(const Shape& shape, DType dtype = f32) {
  const auto n = static_cast<std::size_t>(checked_numel(shape, "made"));
  return tensor(numbers(n, 3), shape, {.dtype = dtype}).requires_grad_();
}

void train_steps(Adafactor& optimizer, const std::vector<Tensor>& params, unsigned seed) {
  for (unsigned t = 0; t < 3; ++t) {
    for (const Tensor& p : params)
      p.set_grad(tensor(numbers(static_cast<std::size_t>(p.numel()), seed + t), p.shape(),
                        {.dtype = p.dtype()}));
    optimizer.step();
  }
}

}  // namespace

TEST_CASE("Adafactor keeps rows and columns of matrices, and all elements of vectors") {
  const std::vector<Tensor> params{made({40, 30}), made({2, 3, 4, 5}), made({7}), made({}),
                                   made({0, 3})};
  Adafactor optimizer(params);
  train_steps(optimizer, params, 1);
  const optim::StateDict saved = optimizer.state_dict();
  CHECK(saved.tensors.at("0.row_var").shape() == Shape{40, 1});
  CHECK(saved.tensors.at("0.col_var").shape() == Shape{1, 30});
  CHECK(saved.tensors.at("1.row_var").shape() == Shape{2, 3, 4, 1});
  CHECK(saved.tensors.at("1.col_var").shape() == Shape{2, 3, 1, 5});
  CHECK(saved.tensors.at("2.variance").shape() == Shape{7});
  CHECK(saved.tensors.at("3.variance").shape() == Shape{});
  CHECK(saved.tensors.count("0.variance") == 0);
  CHECK(saved.tensors.count("2.row_var") == 0);
  for (const Tensor& p : params) CHECK(isfinite(p).all().item<bool>());
}

TEST_CASE("Adafactor resumes bit for bit, and refuses other states") {
  const std::vector<Tensor> params{made({4, 3}), made({5}, f64), made({6, 2, 3, 3})};
  const Tensor last = params[2].detach().to(MemoryFormat::channels_last);
  std::vector<Tensor> same{made({4, 3}), made({5}, f64), last.requires_grad_()};
  Adafactor optimizer(params, {.lr = 0.1, .eps = {0.01, 0.1}}), resumed(same);
  train_steps(optimizer, params, 1);
  for (std::size_t i = 0; i < 3; ++i) same[i].detach().copy_(params[i].detach());
  const optim::StateDict good = optimizer.state_dict();
  resumed.load_state_dict(good);
  CHECK(resumed.options().eps.first == 0.01);
  train_steps(optimizer, params, 9);
  train_steps(resumed, same, 9);
  for (std::size_t i = 0; i < 3; ++i) CHECK(allclose(params[i], same[i], {.rtol = 1e-6}));
  CHECK(equal(params[0], same[0]));
  CHECK(equal(params[1], same[1]));

  const auto refused = [&](const auto& change) {
    optim::StateDict bad = good;
    change(bad.tensors);
    CHECK_THROWS_AS(resumed.load_state_dict(bad), ValueError);
  };
  refused([](auto& t) { t.erase("0.col_var"); });
  refused([](auto& t) { t["0.row_var"] = zeros({4, 3}); });
  refused([](auto& t) { t["0.variance"] = zeros({4, 3}); });
  refused([](auto& t) { t["1.row_var"] = zeros({1}); });
  Adafactor unset(same);
  resumed.load_state_dict(unset.state_dict());
  CHECK(!resumed.options().eps.first);
}

TEST_CASE("Adafactor refuses options out of range") {
  const Tensor p = made({2, 2});
  for (const optim::AdafactorOptions& options :
       {optim::AdafactorOptions{.lr = -1}, optim::AdafactorOptions{.beta2_decay = 0.1},
        optim::AdafactorOptions{.eps = {-1, 1e-3}}, optim::AdafactorOptions{.eps = {{}, -1}},
        optim::AdafactorOptions{.d = 0.5}, optim::AdafactorOptions{.weight_decay = -1}})
    CHECK_THROWS_AS(Adafactor({p}, options), ValueError);
  CHECK(Adafactor({p}, 0.5).lr() == 0.5);
}
