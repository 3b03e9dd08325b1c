#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"
#include "parameters.h"
#include "reference.h"

using namespace mezzo;

namespace {

/** Compares an optimizer under LARC with one without weight decay that gets the gradients of LARC's
 *  equation. */
template <class V> void compare_larc(const optim::LarcOptions& options, double decay) {
  const DType dtype = dtype_of<V>();
  const Tensor p = parameter(1037, dtype), q = parameter(1037, dtype);
  optim::SGD inner({p}, {.lr = 0.1, .momentum = 0.9, .weight_decay = decay});
  optim::SGD plain({q}, {.lr = 0.1, .momentum = 0.9});
  optim::LARC larc(inner, options);
  for (unsigned t = 0; t < 5; ++t) {
    const std::vector<double> g = numbers(1037, t);
    p.set_grad(tensor(g, {1037}, {.dtype = dtype}));
    q.set_grad(
        tensor(reference::larc(bits(q), g, 0.1, decay, options.trust_coefficient, options.clip),
               {1037}, {.dtype = dtype}));
    larc.step();
    plain.step();
    CHECK(bits(p.grad()) == g);
    CHECK(inner.options().weight_decay == decay);
    const std::vector<double> got = bits(p), expected = bits(q);
    for (std::size_t i = 0; i < got.size(); ++i)
      REQUIRE(got[i] == Approx(expected[i]).epsilon(0).margin(sizeof(V) == 4 ? 2e-6 : 1e-14));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("LARC follows its equation", "", float, double) {
  const bool clip = GENERATE(false, true);
  const double decay = GENERATE(0.0, 0.01), trust = GENERATE(0.02, 3.0);
  compare_larc<TestType>({.trust_coefficient = trust, .clip = clip}, decay);
}

TEST_CASE("LARC keeps the gradient and applies no weight decay if a norm is zero") {
  const Tensor zero = zeros({4}).requires_grad_(), still = ones({4}).requires_grad_();
  optim::SGD inner({zero, still}, {.lr = 1, .weight_decay = 0.5});
  const optim::LARC larc(inner);
  zero.set_grad(tensor({1.0, 2.0, 3.0, 4.0}));
  still.set_grad(zeros({4}));
  inner.step();  // LARC applies to steps of the inner optimizer
  CHECK(bits(zero) == std::vector<double>{-1, -2, -3, -4});
  CHECK(bits(still) == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("LARC restores the weight decay when the step throws, and ends with its scope") {
  const Tensor p = parameter(4);
  optim::SGD inner({p}, {.lr = 0.1, .weight_decay = 0.25});
  {
    optim::LARC larc(inner);
    p.set_grad(tensor(numbers(4, 1)));
    allocator_for(cpu).fail_nth(2);
    CHECK_THROWS_AS(larc.step(), OutOfMemory);
    CHECK(inner.options().weight_decay == 0.25);
    CHECK(inner.slots(0)[0].steps == 0);
    CHECK_THROWS_AS(optim::LARC(inner), StateError);
    CHECK_THROWS_AS(optim::LARC(inner, {.trust_coefficient = -1}), ValueError);
    larc.step();
  }
  const Tensor q = p.detach().clone().requires_grad_();
  q.set_grad(p.grad());
  optim::SGD plain({q}, {.lr = 0.1, .weight_decay = 0.25});
  inner.step();
  plain.step();
  CHECK(bits(p) == bits(q));
}

TEST_CASE("LARC whose optimizer was destroyed throws instead of crashing") {
  auto inner = std::make_unique<optim::SGD>(std::vector{parameter(4)});
  optim::LARC larc(*inner);
  inner.reset();
  CHECK_THROWS_WITH_AS_TEXT(larc.step(), StateError, "its optimizer was destroyed");
}

TEST_CASE("LARC passed to a session uses the masters and skips steps with them") {
  nn::Linear model{4, 3};
  optim::SGD inner(model.parameters(), {.lr = 0.1, .weight_decay = 0.1});
  optim::LARC larc(inner);
  const auto session = amp::initialize(model, larc, {.opt_level = "O2", .verbosity = 0});
  const Tensor before = amp::master_params(larc)[0].detach().clone();
  const auto step = [&](double factor) {
    larc.zero_grad();
    amp::scale_loss(sum(model(ones({2, 4}))) * factor, larc,
                    [](const Tensor& scaled) { scaled.backward(); });
    return larc.step();
  };
  CHECK(step(0.25) == optim::StepResult::stepped);
  const std::vector<double> grad(12, 0.5);
  const Tensor master = amp::master_params(larc)[0];
  const std::vector<double> expected = reference::larc(bits(before), grad, 0.1, 0.1, 0.02, true);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(bits(master)[i] == Approx(bits(before)[i] - 0.1 * expected[i]).epsilon(1e-5));
  const std::vector<double> stays = bits(master);
  CHECK(step(1e30) == optim::StepResult::skipped);
  CHECK(bits(master) == stays);
}
