// The fused optimizers against the update equations in reference.h.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../support/catch.h"
#include "../support/throws.h"
#include "parameters.h"
#include "reference.h"

using namespace mezzo;
using optim::StepResult;

namespace {

using Tensors = reference::Tensors;

/** Parameters of different sizes, one of them zero, one empty. */
std::vector<Tensor> parameters(DType dtype, std::int64_t largest = 1037) {
  return {parameter(largest, dtype, 1), parameter(70, dtype, 2),
          zeros({5}, {.dtype = dtype}).requires_grad_(),
          zeros({0}, {.dtype = dtype}).requires_grad_()};
}

/** Trains with both and compares. Gradients shrink, so that some steps clip and others do not. */
template <class Optimizer, class Reference>
void compare_tensors(Optimizer& optimizer, const std::vector<Tensor>& params, Reference reference,
                     double tolerance, int steps = 6) {
  Tensors expected;
  for (const Tensor& p : params) expected.push_back(bits(p));
  for (int t = 0; t < steps; ++t) {
    Tensors grads;
    for (std::size_t k = 0; k < params.size(); ++k) {
      std::vector<double> g =
          numbers(expected[k].size(), 10 * static_cast<unsigned>(t) + static_cast<unsigned>(k));
      for (double& x : g) x = static_cast<float>(x * std::pow(0.1, t));
      params[k].set_grad(tensor(g, params[k].shape(), {.dtype = params[k].dtype()}));
      grads.push_back(std::move(g));
    }
    REQUIRE(optimizer.step() == StepResult::stepped);
    reference.step(expected, grads);
    for (std::size_t k = 0; k < params.size(); ++k) {
      const std::vector<double> got = bits(params[k]);
      for (std::size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - expected[k][i]) <= tolerance * (1 + std::fabs(expected[k][i]))))
          FAIL("step " << t << " parameter " << k << " element " << i << ": " << got[i] << " for "
                       << expected[k][i]);
      CHECK(bits(params[k].grad()) == grads[k]);  // gradients are unchanged
    }
  }
}

template <class V> constexpr double tolerance_of() { return sizeof(V) == 4 ? 3e-6 : 1e-12; }

}  // namespace

TEMPLATE_TEST_CASE("FusedSGD is SGD, and its decay may join after momentum", "", float, double) {
  using V = TestType;
  const bool last = GENERATE(false, true);
  const Tensor p = parameter(1037, dtype_of<V>());
  optim::FusedSGD optimizer({p}, {.lr = 0.1,
                                  .momentum = 0.9,
                                  .weight_decay = 0.1,
                                  .nesterov = true,
                                  .wd_after_momentum = last});
  compare<V>(optimizer, p,
             reference::Sgd<V>{static_cast<V>(0.1), static_cast<V>(0.9), 0, static_cast<V>(0.1),
                               true, last},
             20);
}

TEMPLATE_TEST_CASE("FusedAdam is AdamW or Adam, with and without correction", "", float, double) {
  using V = TestType;
  const bool decoupled = GENERATE(false, true), corrected = GENERATE(false, true);
  const Tensor p = parameter(1037, dtype_of<V>());
  optim::FusedAdam optimizer(
      {p}, {.weight_decay = 0.1, .bias_correction = corrected, .adam_w_mode = decoupled});
  compare<V>(optimizer, p, reference::Adam<V>{1e-3, 0.9, 0.999, 1e-8, 0.1, decoupled, corrected},
             20);
}

TEST_CASE("FusedAdam's defaults are apex's: AdamW without decay") {
  const Tensor p = parameter(100), q = parameter(100);
  optim::FusedAdam fused({p});
  optim::AdamW plain({q}, {.weight_decay = 0});
  for (unsigned t = 0; t < 3; ++t) {
    for (const Tensor& x : {p, q}) x.set_grad(tensor(numbers(100, t)));
    fused.step();
    plain.step();
  }
  CHECK(bits(p) == bits(q));
}

TEMPLATE_TEST_CASE("FusedAdagrad follows its equations bit for bit", "", float, double) {
  using V = TestType;
  const bool decoupled = GENERATE(false, true);
  const double decay = GENERATE(0.0, 0.1);
  const Tensor p = parameter(1037, dtype_of<V>());
  optim::FusedAdagrad optimizer({p}, {.weight_decay = decay, .adagrad_w_mode = decoupled});
  compare<V>(optimizer, p,
             reference::Adagrad<V>{static_cast<V>(1e-2), static_cast<V>(1e-10),
                                   static_cast<V>(decay), decoupled},
             20);
}

TEMPLATE_TEST_CASE("FusedLAMB follows its equations in every variant", "", float, double) {
  using V = TestType;
  const bool corrected = GENERATE(false, true), decoupled = GENERATE(false, true);
  const bool averaging = GENERATE(false, true), nvlamb = GENERATE(false, true);
  const double decay = GENERATE(0.0, 0.01), max_norm = GENERATE(0.0, 1.0);
  const std::vector<Tensor> params = parameters(dtype_of<V>());
  optim::FusedLAMB optimizer(params, {.lr = 0.01,
                                      .weight_decay = decay,
                                      .bias_correction = corrected,
                                      .adam_w_mode = decoupled,
                                      .grad_averaging = averaging,
                                      .max_grad_norm = max_norm,
                                      .use_nvlamb = nvlamb});
  compare_tensors(optimizer, params,
                  reference::Lamb{.lr = 0.01,
                                  .weight_decay = decay,
                                  .max_grad_norm = max_norm,
                                  .corrected = corrected,
                                  .decoupled = decoupled,
                                  .averaging = averaging,
                                  .nvlamb = nvlamb},
                  tolerance_of<V>() * 10, 4);
}

TEST_CASE("norms of tensors with many chunks are correct: LAMB and NovoGrad over large tensors") {
  const std::vector<Tensor> a = parameters(f32, 200001), b = parameters(f32, 200001);
  optim::FusedLAMB lamb(a, {.lr = 0.01});
  compare_tensors(lamb, a, reference::Lamb{.lr = 0.01}, 3e-5, 2);
  optim::FusedNovoGrad novograd(b, {.lr = 0.01});
  compare_tensors(novograd, b, reference::NovoGrad{.lr = 0.01}, 3e-5, 2);
}

TEST_CASE("FusedLAMB clips the gradients of all groups as one vector") {
  const Tensor a = tensor({3.0}).requires_grad_(), b = tensor({4.0}).requires_grad_();
  const auto train = [&](double max_norm) {
    optim::FusedLAMB optimizer(std::vector<optim::ParamGroup<optim::FusedLambOptions>>{
        {{a.detach().clone().requires_grad_()}, {.max_grad_norm = max_norm}},
        {{b.detach().clone().requires_grad_()}, {.max_grad_norm = max_norm}}});
    for (std::size_t group = 0; group < 2; ++group)
      optimizer.slots(group)[0].param.set_grad(tensor({group == 0 ? 3.0 : 4.0}));
    optimizer.step();
    return optimizer.slots(0)[0].state[0].item<float>();
  };
  CHECK(train(1) == Approx(0.1 * 3 / 5));  // exp_avg of the clipped gradient: the norm is 5
  CHECK(train(100) == Approx(0.1 * 3));
  CHECK(train(0) == Approx(0.1 * 3));
  CHECK(train(-1) == Approx(0.1 * 3));
}

TEMPLATE_TEST_CASE("FusedNovoGrad follows its equations in every variant", "", float, double) {
  using V = TestType;
  const bool corrected = GENERATE(false, true), inside = GENERATE(false, true);
  const bool averaging = GENERATE(false, true), max_norm = GENERATE(false, true);
  const bool init_zero = GENERATE(false, true);
  const double decay = GENERATE(0.0, 0.01);
  std::vector<Tensor> params = parameters(dtype_of<V>());
  optim::FusedNovoGrad optimizer(params, {.lr = 0.01,
                                          .weight_decay = decay,
                                          .bias_correction = corrected,
                                          .reg_inside_moment = inside,
                                          .grad_averaging = averaging,
                                          .norm_type = max_norm ? 0 : 2,
                                          .init_zero = init_zero});
  compare_tensors(optimizer, params,
                  reference::NovoGrad{.lr = 0.01,
                                      .weight_decay = decay,
                                      .corrected = corrected,
                                      .inside = inside,
                                      .averaging = averaging,
                                      .max_norm = max_norm,
                                      .init_zero = init_zero},
                  tolerance_of<V>() * 10, 4);
  CHECK(optimizer.slots(0)[0].state[1].shape() == Shape{});  // one norm for the whole tensor
}

TEST_CASE("steps are counted for each parameter") {
  const auto check = [](auto make) {
    const Tensor early = parameter(64), late = parameter(64), alone = parameter(64);
    auto both = make(std::vector{early, late});
    auto one = make(std::vector{alone});
    early.set_grad(tensor(numbers(64, 5)));
    both->step();
    for (const Tensor& p : {late, alone}) p.set_grad(tensor(numbers(64, 6)));
    early.set_grad({});
    both->step();
    one->step();
    CHECK(both->slots(0)[0].steps == 1);
    CHECK(both->slots(0)[1].steps == 1);
    CHECK(bits(late) == bits(alone));
  };
  check([](const auto& params) {
    return std::make_unique<optim::FusedSGD>(
        params, optim::FusedSgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  });
  check([](const auto& params) { return std::make_unique<optim::FusedAdam>(params); });
  check([](const auto& params) { return std::make_unique<optim::FusedAdagrad>(params); });
  check([](const auto& params) { return std::make_unique<optim::FusedLAMB>(params); });
  check([](const auto& params) { return std::make_unique<optim::FusedNovoGrad>(params); });
}

TEST_CASE("the state of every fused optimizer survives saving and loading bit for bit") {
  const auto check = [](auto make) {
    const Tensor p = parameter(300, f16), q = parameter(300, f16);
    auto first = make(std::vector{p});
    const auto step = [](auto& optimizer, const Tensor& x, unsigned t) {
      x.set_grad(tensor(numbers(300, t), {300}, {.dtype = f16}));
      optimizer.step();
    };
    for (unsigned t = 0; t < 3; ++t) step(*first, p, t);
    auto second = make(std::vector{q});
    q.detach().copy_(p.detach());
    second->load_state_dict(first->state_dict());
    for (unsigned t = 3; t < 6; ++t) {
      step(*first, p, t);
      step(*second, q, t);
    }
    CHECK(bits(p) == bits(q));
    CHECK(first->state_dict().tensors.size() == second->state_dict().tensors.size());
  };
  check([](const auto& params) {
    return std::make_unique<optim::FusedSGD>(params,
                                             optim::FusedSgdOptions{.lr = 0.1, .momentum = 0.9});
  });
  check([](const auto& params) { return std::make_unique<optim::FusedAdam>(params); });
  check([](const auto& params) { return std::make_unique<optim::FusedAdagrad>(params); });
  check([](const auto& params) { return std::make_unique<optim::FusedLAMB>(params); });
  check([](const auto& params) { return std::make_unique<optim::FusedNovoGrad>(params); });
}

TEST_CASE("fused optimizers refuse invalid options") {
  const std::vector<Tensor> p{parameter(3)};
  CHECK_THROWS_WITH_AS_TEXT(optim::FusedSGD(p), ValueError, "FusedSGD: lr is out of range");
  CHECK_THROWS_AS(optim::FusedSGD(p, {.lr = 0.1, .momentum = -1}), ValueError);
  CHECK_THROWS_AS(optim::FusedSGD(p, {.lr = 0.1, .weight_decay = -1}), ValueError);
  CHECK_THROWS_AS(optim::FusedSGD(p, {.lr = 0.1, .nesterov = true}), ValueError);
  CHECK_THROWS_AS(
      optim::FusedSGD(p, {.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .nesterov = true}),
      ValueError);
  CHECK_THROWS_WITH_AS_TEXT(optim::FusedNovoGrad(p, {.norm_type = 1}), ValueError, "norm_type");
  CHECK_THROWS_AS(optim::FusedAdagrad(p, {.lr = std::nan("")}), ValueError);
  CHECK_THROWS_AS(optim::FusedLAMB(p, {.betas = {1, 0.9}}), ValueError);
  CHECK_NOTHROW(optim::FusedLAMB(p).add_param_group({}, {}));  // empty groups are allowed
}

TEST_CASE("FusedAdam with amsgrad is AdamW with it, unscaled by the step or before") {
  const double inv_scale = GENERATE(1.0, 0.25);
  const Tensor a = parameter(300, f32, 3), b = parameter(300, f32, 3);
  optim::AdamW adam_w({a}, {.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  optim::FusedAdam fused({b}, {.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  for (unsigned t = 0; t < 4; ++t) {
    const Tensor g = tensor(numbers(300, t)) * (t == 1 ? 8.0 : 1.0);  // a largest square
    a.set_grad(g);
    b.set_grad(g / inv_scale);
    adam_w.step();
    fused.step({.inv_scale = inv_scale});
    CHECK(bits(a) == bits(b));
  }
  CHECK(fused.state_dict().scalars.at("param_groups.0.amsgrad") == 1);
}

TEST_CASE("clipping within a step gives the same bits as clipping first and keeps the gradients") {
  const Tensor a = parameter(70000, f32, 3), b = parameter(70000, f32, 3);
  optim::Adam clipped_first({a}), on_the_way({b});
  const double max_norm = GENERATE(0.5, 1e6);
  for (unsigned t = 0; t < 3; ++t) {
    for (const Tensor& p : {a, b}) p.set_grad(tensor(numbers(70000, t)));
    optim::clip_grad_norm({a}, max_norm);
    clipped_first.step();
    const std::vector<double> before = bits(b.grad());
    on_the_way.step({.max_norm = max_norm});
    CHECK(bits(b.grad()) == before);
  }
  CHECK(bits(a) == bits(b));
  CHECK_THROWS_AS(on_the_way.step({.max_norm = -1}), ValueError);
}

TEST_CASE("norms of lists: total, per tensor, scaled, with a flag for non-finite values") {
  const Tensor x = tensor({3.0, 4.0}), empty = zeros({0}), y = full({3}, 4.0, {.dtype = f16}),
               flag = zeros({});
  const optim::Norms n =
      optim::norms(std::vector{x, empty, y}, {.inv_scale = 0.5, .found_inf = flag});
  CHECK(n.each.to_vector<double>() == std::vector<double>{2.5, 0, std::sqrt(12.0)});
  CHECK(n.total.item<double>() == Approx(std::sqrt(6.25 + 12)));
  CHECK(flag.item<float>() == 0);
  CHECK(bits(x) == std::vector<double>{3, 4});
  const Tensor bad = tensor({1.0, std::numeric_limits<double>::infinity()});
  optim::norms(std::vector{x, bad}, {.found_inf = flag});
  CHECK(flag.item<float>() == 1);
  const auto largest = optim::norms(std::vector{x, tensor({std::nan(""), 7.0})},
                                    {.p = std::numeric_limits<double>::infinity()});
  CHECK(largest.each.to_vector<double>()[0] == 4);
  CHECK(std::isnan(largest.total.item<double>()));
  const auto found = optim::FoundInf::reset_on(cpu);
  optim::check_finite(std::vector<optim::AxpbyTensors>{{x, {}, {}}, {empty, {}, {}}, {y, {}, {}}},
                      found);
  CHECK_FALSE(found.raised());
  optim::check_finite(std::vector<optim::AxpbyTensors>{{x, {}, {}}, {bad, {}, {}}}, found);
  CHECK(found.raised());
  CHECK(bits(bad)[0] == 1);
}
