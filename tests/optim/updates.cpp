#include <mezzo.h>

#include <cmath>
#include <cstring>

#include "../../optim/updates.h"
#include "../support/catch.h"
#include "parameters.h"
#include "reference.h"

using namespace mezzo;
using optim::StepResult;

TEMPLATE_TEST_CASE("SGD follows its equations bit for bit", "", float, double) {
  using V = TestType;
  const DType dtype = dtype_of<V>();
  const optim::SgdOptions options = GENERATE(
      optim::SgdOptions{.lr = 0.125}, optim::SgdOptions{.lr = 0.1, .weight_decay = 0.01},
      optim::SgdOptions{.lr = 0.1, .momentum = 0.9},
      optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5},
      optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  const Tensor p = parameter(1037, dtype);
  optim::SGD optimizer({p}, options);
  compare<V>(optimizer, p,
             reference::Sgd<V>{static_cast<V>(options.lr), static_cast<V>(options.momentum),
                               static_cast<V>(options.dampening),
                               static_cast<V>(options.weight_decay), options.nesterov},
             20);
}

TEMPLATE_TEST_CASE("Adam and AdamW follow their equations bit for bit", "", float, double) {
  using V = TestType;
  const double decay = GENERATE(0.0, 0.1);
  const Tensor p = parameter(1037, dtype_of<V>()), q = parameter(1037, dtype_of<V>());
  optim::Adam adam({p}, {.lr = 0.01, .betas = {0.8, 0.99}, .eps = 1e-6, .weight_decay = decay});
  compare<V>(adam, p, reference::Adam<V>{0.01, 0.8, 0.99, 1e-6, decay, false}, 30);
  optim::AdamW adamw({q}, {.lr = 0.01, .betas = {0.8, 0.99}, .eps = 1e-6, .weight_decay = decay});
  compare<V>(adamw, q, reference::Adam<V>{0.01, 0.8, 0.99, 1e-6, decay, true}, 30);
}

TEST_CASE("centred RMSprop stays finite where rounding makes the variance negative") {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const double alpha : {0.99, 0.9, 0.5})
      for (const double momentum : {0.0, 0.9}) {
        INFO(name(dtype) << ", alpha " << alpha << ", momentum " << momentum);
        const Tensor p = zeros({3}, {.dtype = dtype}).requires_grad_();
        optim::RMSprop optimizer(
            {p}, {.lr = 1e-9, .alpha = alpha, .momentum = momentum, .centered = true});
        p.set_grad(tensor({3.3, -1e-3, 0.7}, {.dtype = dtype}));
        bool finite = true;
        for (int step = 0; step < 2500; ++step) {
          optimizer.step();
          for (const double value : p.to_vector<double>()) finite &= std::isfinite(value);
        }
        CHECK(finite);
      }
  // Gradients whose squares overflow.
  const Tensor p = ones({2}).requires_grad_();
  optim::RMSprop optimizer({p}, {.alpha = 0.5, .centered = true});
  p.set_grad(tensor({1e20, -3e37}));
  for (int step = 0; step < 100; ++step) optimizer.step();
  CHECK(std::isfinite(p.to_vector<double>()[0]));
  CHECK(std::isfinite(p.to_vector<double>()[1]));
  p.set_grad(tensor({std::nan(""), 1.0}));
  optimizer.step();
  CHECK(std::isnan(p.to_vector<double>()[0]));
}

TEST_CASE("the first step with dampening uses the full gradient, as PyTorch does") {
  const Tensor p = tensor(1.0).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1, .momentum = 0.5, .dampening = 0.75});
  p.set_grad(tensor(1.0));
  optimizer.step();
  CHECK(p.item<float>() == 0.0f);  // buffer = 1
  optimizer.step();
  CHECK(p.item<float>() == -0.75f);  // buffer = 0.5 * 1 + 0.25 * 1
}

TEST_CASE("16-bit parameters are updated in f32 with f32 state and rounded once") {
  const DType dtype = GENERATE(f16, bf16);
  const Tensor p = parameter(300, dtype);
  const Tensor wide = p.detach().to(f32).requires_grad_();
  optim::Adam low({p}, {.lr = 0.01}), full({wide}, {.lr = 0.01});
  for (int t = 0; t < 10; ++t) {
    wide.detach().copy_(p.detach());
    const Tensor g = tensor(numbers(300, 7), {300}, {.dtype = dtype});
    p.set_grad(g);
    wide.set_grad(g.to(f32));
    low.step();
    full.step();
    CHECK(p.to_vector<float>() == wide.detach().to(dtype).to_vector<float>());
  }
  CHECK(low.slots(0)[0].state[0].dtype() == f32);
  CHECK(bits(low.slots(0)[0].state[1]) == bits(full.slots(0)[0].state[1]));
}

TEST_CASE("a master is updated instead of its parameter, which gets the rounded value") {
  const Tensor low = parameter(5000, f16);
  const Tensor alone = low.detach().to(f32).clone().requires_grad_();
  optim::Adam with_master({low}, {.lr = 0.01}), plain({alone}, {.lr = 0.01});
  const Tensor master = low.detach().to(f32).clone().requires_grad_();
  with_master.slots(0)[0].master = master;
  for (int t = 0; t < 5; ++t) {
    const Tensor g = tensor(numbers(5000, 3 + static_cast<unsigned>(t)), {5000});
    master.set_grad(g);
    alone.set_grad(g);
    const auto version = low.version();
    with_master.step();
    plain.step();
    CHECK(low.version() != version);
    CHECK(bits(master) == bits(alone));
    CHECK(bits(low) == bits(alone.detach().to(f16)));
  }
}

TEST_CASE("a list of tensors is updated as each tensor alone, for any number of threads") {
  const std::vector<std::int64_t> sizes{1, 0, 7, 65536, 65537, 200001};
  std::vector<std::vector<double>> results[3];
  for (int variant = 0; variant < 3; ++variant) {
    std::vector<Tensor> params;
    for (const std::int64_t n : sizes)
      params.push_back(parameter(n, f32, static_cast<unsigned>(n)));
    std::vector<std::unique_ptr<optim::Adam>> optimizers;
    if (variant == 0)
      for (const Tensor& p : params)
        optimizers.push_back(std::make_unique<optim::Adam>(std::vector{p}));
    else
      optimizers.push_back(std::make_unique<optim::Adam>(params));
    const int threads = num_threads();
    set_num_threads(variant == 2 ? 3 : 1);
    for (unsigned t = 0; t < 3; ++t) {
      for (const Tensor& p : params)
        p.set_grad(tensor(numbers(static_cast<std::size_t>(p.numel()), t), p.shape()));
      for (const auto& optimizer : optimizers) optimizer->step();
    }
    set_num_threads(threads);
    for (const Tensor& p : params) results[variant].push_back(bits(p));
  }
  CHECK(results[0] == results[1]);
  CHECK(results[1] == results[2]);
}

TEST_CASE("parameters and gradients may have any strides") {
  const Tensor base = tensor(numbers(12, 1), {3, 4}),
               dense = base.t().contiguous().requires_grad_();
  const Tensor strided = base.t().detach().requires_grad_();
  REQUIRE(!strided.is_contiguous());
  const Tensor g = tensor(numbers(12, 2), {4, 3});
  dense.set_grad(g);
  strided.set_grad(g.t().contiguous().t());
  optim::SGD a({dense}, {.lr = 0.1, .momentum = 0.9}), b({strided}, {.lr = 0.1, .momentum = 0.9});
  for (int t = 0; t < 3; ++t) {
    a.step();
    b.step();
  }
  CHECK(bits(dense) == bits(strided));
  const Tensor ones_row = ones({1, 3}).expand({4, 3});
  dense.set_grad(ones_row.contiguous());
  strided.set_grad(ones_row);
  a.step();
  b.step();
  CHECK(bits(dense) == bits(strided));
}

TEST_CASE("updates scale gradients and skip if the overflow flag is set") {
  using optim::AdamUpdate;
  const double lr = 0.1;
  const optim::UpdateCounter counter{.correction1 = 10, .correction2 = 100};
  const AdamUpdate::Settings settings{{.betas = {0.9, 0.99}}, {&lr, &counter}};
  const auto run = [&](double factor, double inv_scale, optim::NonfiniteWord found) {
    const Tensor p = tensor(numbers(100, 1)), m = zeros({100}), v = zeros({100});
    const optim::TensorTuple tensors{p, tensor(numbers(100, 2)) * factor, {}, m, v};
    optim::run_update(optim::update_row<AdamUpdate>, {tensors}, &settings,
                      {.inv_scale = inv_scale, .found_inf = &found});
    std::vector<double> out = bits(p);
    for (const Tensor& state : {m, v})
      for (const double x : bits(state)) out.push_back(x);
    return out;
  };
  constexpr auto none = optim::kAllFinite;
  CHECK(run(1024, 1.0 / 1024, none) == run(1, 1, none));
  std::vector<double> untouched = numbers(100, 1);
  untouched.resize(300);
  CHECK(run(1, 1, 1) == untouched);
}

TEST_CASE("the lists of a kernel must agree") {
  const Tensor a = zeros({3}), b = zeros({4});
  const optim::AxpbyTensors unequal{a, b, a};
  CHECK_THROWS_AS(optim::axpby({&unequal, 1}, 1, 1), ShapeError);
  const optim::AxpbyTensors integers{tensor(1.0, {.dtype = i32}), {}, a};
  CHECK_THROWS_AS(optim::axpby({&integers, 1}, 1, 1), DtypeError);
}

TEST_CASE("axpby multiplies x of each item by its factor, and only checks x without a result") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({1.0, -2.0}), y = tensor({10.0, 20.0}), plain = zeros({2}),
               scaled = zeros({2});
  const std::vector<optim::AxpbyTensors> items{
      {x, y, plain}, {x, y, scaled, 1, 0.25}, {tensor({1, inf}), {}, {}, 5, 3}};
  const auto found = optim::FoundInf::reset_on(cpu);
  optim::axpby(items, 2, 1, found);
  CHECK(plain.to_vector<double>() == std::vector<double>{12, 16});
  CHECK(scaled.to_vector<double>() == std::vector<double>{10.5, 19});
  CHECK(optim::number_of(found.location()) == 5);
  CHECK(optim::element_of(found.location()) == 1);
}

TEST_CASE("axpby writes all elements and reports non-finite ones") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({1, inf, 3}, {.dtype = f16}), y = tensor({1, 1, std::nan("")}),
               out = zeros({3});
  const auto run = [&](bool checks) {
    const auto found = checks ? optim::FoundInf::reset_on(cpu) : optim::FoundInf{};
    const optim::AxpbyTensors item{x, y, out};
    optim::axpby({&item, 1}, 0.5, 2, found);
    CHECK(out.to_vector<double>()[0] == 2.5);
    CHECK(out.to_vector<double>()[1] == inf);
    CHECK(std::isnan(out.to_vector<double>()[2]));
    return found.raised();
  };
  CHECK_FALSE(run(false));
  CHECK(run(true));
  const Tensor clean = tensor(1.0);
  const auto found = optim::FoundInf::reset_on(cpu);
  const optim::AxpbyTensors item{clean, {}, clean};
  optim::axpby({&item, 1}, 3, 0, found);
  CHECK_FALSE(found.raised());
  CHECK(clean.item<float>() == 3);
}
