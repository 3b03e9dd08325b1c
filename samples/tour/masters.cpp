#include "chapters.h"

#include <mezzo.h>

#include <cmath>

namespace samples::tour {

using namespace mezzo;

namespace {

/** One weight, which starts at 1. */
struct OneWeight : nn::Model<OneWeight> {
  Tensor weight = add_parameter("weight", ones({1, 1}));
  Tensor forward(const Tensor& x) const { return linear(x, weight); }
};

void backward(const Tensor& scaled) { scaled.backward(); }

amp::Options options(const std::string& level, bool masters) {
  amp::Options o{.opt_level = level, .loss_scale = 1.0, .verbosity = 0};
  if (level != "O0") o.master_weights = masters;
  return o;
}

/** Takes the first step of Adam on a layer whose gradients are all about 1. */
AdamStep step_adam(const std::string& level, double lr) {
  manual_seed(1);
  const nn::Linear layer{4, 16, {.bias = false}};
  optim::Adam optimizer(layer.parameters(), {.lr = lr});
  auto session = amp::initialize(layer, optimizer, options(level, level == "O2"));
  const Tensor updated = amp::master_params(optimizer)[0];
  AdamStep step{.before = updated.to_vector<double>(), .after = {}};
  amp::scale_loss(sum(layer(ones({1, 4}))), optimizer, backward);
  optimizer.step();
  step.after = updated.to_vector<double>();
  return step;
}

void tell_weights(Guide& guide, const MastersFinding& found) {
  Table table{.header = {"level", "weight is", "weight", "optimizer's number"}, .rows = {}};
  for (const SteppedWeight& w : found.weights)
    table.rows.push_back({w.level, w.dtype, rounded(w.weight, 8), rounded(w.updated, 8)});
  guide.show(table);
}

}  // namespace

SteppedWeight step_weight(const std::string& level, double update, int steps, bool masters) {
  const OneWeight model;
  optim::SGD optimizer(model.parameters(), {.lr = update});
  auto session = amp::initialize(model, optimizer, options(level, masters));
  const Tensor x = full({1, 1}, -1.0);  // the gradient is -1, so that a step adds `update`
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    amp::scale_loss(sum(model(x)), optimizer, backward);
    optimizer.step();
  }
  return {.level = level,
          .dtype = std::string(name(model.weight.dtype())),
          .weight = model.weight.item<double>(),
          .updated = amp::master_params(optimizer)[0].item<double>()};
}

std::int64_t AdamStep::changed() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < before.size(); ++i) n += before[i] != after[i] ? 1 : 0;
  return n;
}

MastersFinding find_masters() {
  MastersFinding found;
  found.update = 0x1p-13;
  found.steps = 1000;
  found.lr = 1e-4;
  for (const char* level : {"O0", "O3", "O2"})
    found.weights.push_back(
        step_weight(level, found.update, found.steps, std::string(level) == "O2"));
  found.bare = step_adam("O3", found.lr);
  found.with_masters = step_adam("O2", found.lr);
  return found;
}

void tell_masters(Guide& guide) {
  guide.chapter(5, "Master weights");
  guide.say(
      "A training step moves each weight a little: the update is the learning rate times the "
      "gradient, or about as much. Level O3 keeps the weights in f16. Level O2 does, too, but its "
      "optimizer has a copy of each weight in f32, the master, updates the master, and rounds it "
      "to f16 for the net.");
  const MastersFinding found = find_masters();
  guide.ask(str("A weight of 1 gets ", found.steps, " updates of ", power_text(found.update),
                " each. Exactly, that makes ", rounded(1 + found.steps * found.update),
                ". Where does it end at O0 (f32), O3 and O2?"));
  tell_weights(guide, found);
  guide.explain(
      "Next to 1, an update of 2^-13 is below 2^-11 and is rounded away, a thousand times; the "
      "master adds them up until f16 can show them.");
  guide.ask(str("One step of Adam with a learning rate of ", rounded(found.lr), " on ",
                found.bare.before.size(),
                " weights between -0.5 and 0.5. How many change at O3, and how many masters at "
                "O2? Think of 2^-11."));
  guide.show(str("O3: ", found.bare.changed(), " of ", found.bare.before.size(), " weights"));
  guide.show(str("O2: ", found.with_masters.changed(), " of ", found.with_masters.before.size(),
                 " masters"));
  guide.explain(
      "Adam's first update is as large as its learning rate, and from 0.25 on f16 is too coarse "
      "for it: large weights stand still while small ones learn.");
}

}  // namespace samples::tour
