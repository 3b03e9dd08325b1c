// Parameters that some or all ranks do not use, that are shared or frozen.
#include "../support/levels.h"
#include "bucketings.h"

using namespace trainees;

TEST_CASE("unused parameters count as zero, and stay without a gradient if no rank uses them") {
  const QuietLog quiet;
  for (const auto& [use_name, uses] : kUses)
    for (const auto& [name, options] : bucketings()) {
      INFO(use_name << ", " << name);
      const Weighted model(std::vector<Shape>{{4}, {2, 3}, {1}, {300'000}, {5}, {}, {3}, {0}});
      const Wrapped net(model, options);
      for (int step = 1; step <= 5; ++step) {
        const auto factor = [&, uses = uses](int r, std::size_t i) {
          return uses(r, step, i) ? size() * static_cast<double>(step + r + 1) : 0;
        };
        Factors mine, expected;
        for (std::size_t i = 0; i < model.params.size(); ++i) {
          mine.push_back(factor(rank(), i));
          const double sum = total_over_ranks([&](int r) { return factor(r, i); });
          expected.push_back(sum == 0 ? kNone : sum / size());
        }
        model.zero_grad();
        model.loss(mine).backward();
        CHECK(wrong_gradients(model, expected) == "");
      }
    }
}

TEST_CASE("the gradient of a parameter that no rank uses stays as it was") {
  const QuietLog quiet;
  const Weighted model(std::vector<Shape>{{4}, {3}, {300'000}});
  const Wrapped net(model, {.comm = ranks(), .first_bucket_mib = kTinyMib});
  const double n = size();
  model.loss({n, 2 * n, 3 * n}).backward();
  model.loss({n, 0, 0}).backward();
  CHECK(wrong_gradients(model, {2 * n, 2 * n, 3 * n}) == "");
  model.zero_grad(false);
  model.loss({0, n, 0}).backward();
  CHECK(wrong_gradients(model, {0, n, 0}) == "");
}

TEST_CASE("unused parameters are named once in the log") {
  if (size() == 1) return;
  std::string lines;
  const LogSink former =
      set_log_sink([&](Severity, std::string_view line) { lines += str(line, "\n"); });
  const Weighted model(std::vector<Shape>(8, Shape{2}));
  const Wrapped net(model, {.comm = ranks()});
  for (int step = 0; step < 3; ++step) model.loss({1, 0, 0, 0, 0, 0, 0, 0}).backward();
  set_log_sink(former);
  CHECK(lines ==
        "DistributedDataParallel: the loss does not depend on p1, p2, p3, p4, p5 and 2 more\n");
}

TEST_CASE("unused parameters can be refused, on all ranks") {
  const QuietLog quiet;
  if (size() == 1) return;
  const Weighted model(std::vector<Shape>{{4}, {3}, {2}});
  const Wrapped net(model, {.comm = ranks(), .unused = nn::UnusedParameters::refuse});
  for (int step = 0; step < 2; ++step)
    CHECK_THROWS_WITH_AS_TEXT(model.loss({1, 0, 1}).backward(), StateError,
                              "DistributedDataParallel: the loss does not depend on all "
                              "parameters; got no gradient for p1; freeze them, or pass .unused = "
                              "UnusedParameters::allow");
  const double n = size();
  model.zero_grad();
  model.loss({n, rank() == 0 ? n : 0, n}).backward();  // used by one rank
  CHECK(wrong_gradients(model, {n, 1, n}) == "");
}

// ---- which parameters take part -----------------------------------------------------------------

namespace {

/** Two layers that share their weight; `frozen` is not trained. */
struct Tied : nn::Model<Tied> {
  Tied() { frozen.requires_grad_(false); }
  nn::Linear first = add("first", nn::Linear{3, 3, {.bias = false}});
  nn::Linear frozen = add("frozen", nn::Linear{3, 3});
  Tensor again = add_parameter("again", first.weight());
  Tensor loss(double factor) const { return sum(first.weight() + again * 2.0) * factor; }
};

}  // namespace

TEST_CASE("shared parameters are reduced once, frozen ones never") {
  const Tied model;
  const nn::DistributedDataParallel<Tied> net(model, {.comm = ranks()});
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    model.loss(rank() + 1).backward();
    CHECK(all_are(model.again.grad(), 3 * mean_over_ranks([](int r) { return r + 1; })));
    CHECK(!model.frozen.weight().grad().defined());
  }
}

TEST_CASE("a model without trained parameters can be wrapped") {
  nn::Linear layer{2, 2};
  layer.freeze();
  const nn::DistributedDataParallel<nn::Linear> net(layer, {.comm = ranks()});
  const Tensor x = ones({1, 2}).requires_grad_();
  sum(net(x)).backward();
  CHECK(x.grad().defined());
}
