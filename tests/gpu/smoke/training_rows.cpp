// Rows: optimizers, loss scaling, and steps that are captured and replayed.
#include <memory>
#include <optional>

#include "row.h"

namespace smoke {

namespace {

/** Returns parameters of several sizes, which one launch updates. */
Tensors parameters(const Maker& make, DType dtype) {
  Tensors list;
  for (int i = 0; i < make.pick(5, 40, 40); ++i)
    list.push_back(make.normal({make.pick(33, 1000, 1 << 20) + i}, dtype));
  return list;
}

using MakeOptimizer = std::shared_ptr<optim::Optimizer> (*)(const Tensors& parameters);

template <class Optimizer, auto kOptions> std::shared_ptr<optim::Optimizer> made(const Tensors& p) {
  return std::make_shared<Optimizer>(p, kOptions());
}

/** Compares weights after two steps; a timed call is a step. */
Row optimizer_row(const std::string& name, MakeOptimizer make_optimizer, double passes) {
  const auto cases = [=](const Maker& make) {
    Case c;
    c.operands = parameters(make, f32);
    for (const Tensor& p : c.operands) c.bytes += passes * size_of(p);
    const std::size_t count = c.operands.size();
    for (std::size_t i = 0; i < count; ++i)
      c.operands.push_back(make.normal(c.operands[i].shape()) * 0.1);
    c.prepare = [=](const Tensors& all) -> Step {
      Tensors p;
      for (std::size_t i = 0; i < count; ++i) {
        p.push_back(all[i].detach().clone().requires_grad_());
        p.back().set_grad(all[count + i].clone());
      }
      const auto optimizer = make_optimizer(p);
      optimizer->step();
      return [=] {
        optimizer->step();
        Tensors values;
        for (const Tensor& x : p) values.push_back(x.detach());
        return values;
      };
    };
    return c;
  };
  // A few units of f32, so that errors in an update of a thousandth of the weight show.
  return {name, cases, 2e-6};
}

Row clip_row() {
  const auto cases = [](const Maker& make) {
    Case c;
    c.operands = parameters(make, f32);
    for (const Tensor& p : c.operands) c.bytes += 3 * size_of(p);
    c.prepare = [](const Tensors& all) -> Step {
      Tensors p;
      for (const Tensor& x : all) {
        p.push_back(zeros_like(x).requires_grad_());
        p.back().set_grad(x.clone());
      }
      return [=] { return Tensors{optim::clip_grad_norm(p, 1.0)}; };
    };
    return c;
  };
  return {"clip_grad_norm f32", cases, tolerance(f32)};
}

struct Net : nn::Model<Net> {
  explicit Net(std::int64_t width_of_layers) : width(width_of_layers) {}
  Tensor forward(const Tensor& x) const { return last(relu(norm(first(x)))); }

  std::int64_t width;
  nn::Linear first = add("first", nn::Linear{width, width});
  nn::LayerNorm norm = add("norm", nn::LayerNorm{width});
  nn::Linear last = add("last", nn::Linear{width, 10});
};

/** Steps of a training; the capture happens at the second. */
constexpr int kSteps = 4;

/** Trains a net for a few steps at a level. Captured steps must have the bits of eager ones. */
struct Training {
  Training(const Tensors& operands, const std::string& level, bool captured)
      : net(operands[0].size(1)), optimizer(net.parameters(), {.lr = 1e-3}) {
    net.to(operands[0].device());
    session.emplace(amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0}));
    if (captured)
      step.emplace([this](const Tensors& in) { return run(in); },
                   gpu::CapturedStepOptions{.device = operands[0].device()});
  }

  Tensors run(const Tensors& in) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(in[0]), in[1]);
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
    return {loss};
  }

  Tensors weights() const {
    Tensors values;
    for (const Tensor& p : net.parameters()) values.push_back(p.detach().to(f32));
    return values;
  }

  Net net;
  optim::FusedAdam optimizer;
  std::optional<amp::Session> session;
  std::optional<gpu::CapturedStep> step;
};

/** Compares weights after eager steps with those after captured ones; the difference must be 0. A
 *  timed call is one captured step. */
Row captured_row(const std::string& level) {
  const auto cases = [=](const Maker& make) {
    Case c;
    const std::int64_t width = make.pick(32, 128, 1024);
    c.operands = {make.normal({make.pick(8, 32, 256), width}),
                  make.indices(10, {make.pick(8, 32, 256)})};
    c.prepare = [=](const Tensors& in) -> Step {
      const auto train = [&](bool captured) {
        manual_seed(3);
        auto training = std::make_shared<Training>(in, level, captured);
        for (int i = 0; i < kSteps; ++i) captured ? (*training->step)(in) : training->run(in);
        return training;
      };
      const auto captured = train(true);
      Tensors apart;
      const Tensors a = train(false)->weights(), b = captured->weights();
      for (std::size_t i = 0; i < a.size(); ++i) apart.push_back(a[i] - b[i]);
      return [=] {
        (*captured->step)(in);
        return apart;
      };
    };
    return c;
  };
  return {"captured step, " + level, cases, 0, Expected::same};
}

/** Compares the loss after some steps, which uses all kernels of a step. */
Row training_row(const std::string& level, double tolerance_of_level) {
  const auto cases = [=](const Maker& make) {
    Case c;
    const std::int64_t width = make.pick(32, 128, 1024);
    c.operands = {make.normal({make.pick(8, 32, 256), width}),
                  make.indices(10, {make.pick(8, 32, 256)})};
    c.prepare = [=](const Tensors& in) -> Step {
      manual_seed(3);
      const Tensors batch{in[0].to(f32), in[1]};
      const auto training = std::make_shared<Training>(batch, level, false);
      for (int i = 1; i < kSteps; ++i) training->run(batch);
      return [=] { return training->run(batch); };
    };
    return c;
  };
  return {"training step, " + level, cases, tolerance_of_level};
}

/** A replayed graph of some ops. */
Row graph_row() {
  const auto cases = [](const Maker& make) {
    Case c;
    c.operands = {make.normal({make.pick(3000, 1 << 18, 1 << 24)})};
    c.bytes = 4 * size_of(c.operands[0]);
    c.prepare = [](const Tensors& x) -> Step {
      const NoGrad no_grad;
      const auto y = std::make_shared<Tensor>();
      const auto work = [=] { *y = x[0] * 2 + 1; };
      work();
      if (x[0].device() == cpu) return [=] { return Tensors{*y}; };
      const auto graph = std::make_shared<gpu::Graph>();
      graph->capture(x[0].device(), work);
      return [=] {
        graph->replay();
        return Tensors{*y};
      };
    };
    return c;
  };
  return {"capture and replay", cases, 0, Expected::same};
}

}  // namespace

void add_training_rows(std::vector<Row>& rows) {
  using namespace optim;
  rows.push_back(
      optimizer_row("FusedAdam f32", made<FusedAdam, [] { return FusedAdamOptions{}; }>, 7));
  rows.push_back(optimizer_row("Adam f32", made<Adam, [] { return AdamOptions{}; }>, 7));
  rows.push_back(optimizer_row("AdamW f32", made<AdamW, [] { return AdamWOptions{}; }>, 7));
  rows.push_back(optimizer_row(
      "SGD f32", made<SGD, [] { return SgdOptions{.lr = 0.1, .momentum = 0.9}; }>, 5));
  rows.push_back(
      optimizer_row("FusedSGD f32",
                    made<FusedSGD, [] { return FusedSgdOptions{.lr = 0.1, .momentum = 0.9}; }>, 5));
  rows.push_back(
      optimizer_row("FusedLAMB f32", made<FusedLAMB, [] { return FusedLambOptions{}; }>, 9));
  rows.push_back(
      optimizer_row("Adafactor f32", made<Adafactor, [] { return AdafactorOptions{}; }>, 9));
  rows.push_back(optimizer_row("FusedNovoGrad f32",
                               made<FusedNovoGrad, [] { return FusedNovoGradOptions{}; }>, 6));
  rows.push_back(optimizer_row("FusedAdagrad f32",
                               made<FusedAdagrad, [] { return FusedAdagradOptions{}; }>, 5));
  rows.push_back(optimizer_row("RMSprop f32", made<RMSprop, [] { return RMSpropOptions{}; }>, 5));
  rows.push_back(
      optimizer_row("Adadelta f32", made<Adadelta, [] { return AdadeltaOptions{}; }>, 7));
  rows.push_back(optimizer_row("Adamax f32", made<Adamax, [] { return AdamaxOptions{}; }>, 7));
  rows.push_back(optimizer_row("NAdam f32", made<NAdam, [] { return NAdamOptions{}; }>, 7));
  rows.push_back(optimizer_row("RAdam f32", made<RAdam, [] { return RAdamOptions{}; }>, 7));
  rows.push_back(clip_row());
  rows.push_back(graph_row());
  for (const auto& [level, tolerance_of_level] :
       {std::pair{"O0", 5e-5}, std::pair{"O1", 1e-2}, std::pair{"O2", 1e-2}, std::pair{"O4", 3e-2},
        std::pair{"O5", 3e-2}})
    rows.push_back(training_row(level, tolerance_of_level));
  for (const char* level : {"O0", "O2", "O5"}) rows.push_back(captured_row(level));
}

}  // namespace smoke
