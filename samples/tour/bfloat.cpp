
#include <mezzo.h>

#include "chapters.h"

namespace samples::tour {

using namespace mezzo;

namespace {

constexpr double kSmallLoss = 1e-8, kLargeInputs = 1e6;

InBoth store_in_both(double wanted) {
  const Tensor x = tensor(wanted, {.dtype = f64});
  return {
      .wanted = wanted, .in_f16 = x.to(f16).item<double>(), .in_bf16 = x.to(bf16).item<double>()};
}

/** Returns the outputs of the small net's first layer at a level, for its inputs times `factor`. */
Tensor layer_outputs(const char* level, double factor) {
  const SmallTask task = make_small_task();
  const auto session = amp::initialize(task.net, {.opt_level = level, .verbosity = 0});
  const NoGrad no_grad;
  return task.net.fc1(task.x * factor).to(f64);
}

NetInType run_net(const char* level) {
  const Tensor exact = layer_outputs("O0", 1);
  const Tensor error = max(abs(layer_outputs(level, 1) - exact)) / max(abs(exact));
  return {.gradients_lost = share_lost(small_net_gradients(level, 1, kSmallLoss),
                                       small_net_gradients("O0", 1, kSmallLoss)),
          .large_output = layer_outputs(level, kLargeInputs)[0][0].item<double>(),
          .output_error = error.item<double>()};
}

void tell_numbers(Guide& guide, const BfloatFinding& found) {
  Table table{.header = {"number", "f16", "bf16"}, .rows = {}};
  for (const InBoth& n : found.numbers)
    table.rows.push_back({rounded(n.wanted), rounded(n.in_f16), rounded(n.in_bf16)});
  guide.show(table);
}

void tell_net(Guide& guide, const BfloatFinding& found) {
  const NetInType &o1 = found.o1, &o4 = found.o4;
  const auto row = [](const std::string& what, const std::string& a, const std::string& b) {
    return std::vector{what, a, b};
  };
  guide.show({.header = {"", "O1 (f16)", "O4 (bf16)"},
              .rows = {row("gradients that became 0", percent(o1.gradients_lost),
                           percent(o4.gradients_lost)),
                       row(str("an output of ", rounded(found.large_output)),
                           rounded(o1.large_output), rounded(o4.large_output)),
                       row("largest error of ordinary outputs", percent(o1.output_error, 3),
                           percent(o4.output_error, 3))}});
}

}  // namespace

BfloatFinding find_bfloat() {
  BfloatFinding found;
  for (const double wanted : {1e-8, 1e5, 3e38, 257.0, 3.14159})
    found.numbers.push_back(store_in_both(wanted));
  found.large_output = layer_outputs("O0", kLargeInputs)[0][0].item<double>();
  found.o1 = run_net("O1");
  found.o4 = run_net("O4");
  found.update = 0x1p-10;
  found.steps = 100;
  found.half = step_weight("O3", found.update, found.steps, false);
  found.bare = step_weight("O5", found.update, found.steps, false);
  found.masters = step_weight("O5", found.update, found.steps, true);
  return found;
}

void tell_bfloat(Guide& guide) {
  guide.chapter(7, "bf16");
  guide.say(
      "There is another way to spend 16 bits. bf16 has 8 bits for the exponent, as f32 has, and 7 "
      "for the fraction: the range of f32, and next to 1 the numbers are 1/128 apart. "
      "Levels O4 and O5 are O1 and O2 with bf16 in place of f16, without loss scaling.");
  guide.ask(
      "Which of 1e-8, 100000, 3e38, 257 and 3.14159 does each of the two types store to within 1 "
      "%? "
      "And which does it store exactly?");
  const BfloatFinding found = find_bfloat();
  tell_numbers(guide, found);
  guide.explain(
      "Very small and very large numbers fit bf16 only; numbers in between are up to 8 times as "
      "accurate in f16, which has 3 more bits for the fraction.");
  guide.ask(
      "We run the net of chapter 4 once more, without loss scaling. Who wins, O1 or O4: for tiny "
      "gradients, for inputs of a million, for the accuracy of ordinary outputs?");
  tell_net(guide, found);
  guide.explain(
      "f16 fails at both ends of its range, where bf16 needs no help; for numbers that fit both, "
      "f16 is the better one.");
  guide.ask(str("A weight of 1 gets ", found.steps, " updates of ", power_text(found.update),
                ". Where does it end in f16 and in bf16, both without master weights, and in bf16 "
                "with one?"));
  guide.show(str("f16 without a master (O3):   ", rounded(found.half.updated, 8)));
  guide.show(str("bf16 without a master:       ", rounded(found.bare.updated, 8)));
  guide.show(str("bf16 with its master (O5):   ", rounded(found.masters.updated, 8),
                 ", in the net ", rounded(found.masters.weight, 8)));
  guide.explain(
      "The rule of 2^-11 is a rule of 2^-8 in bf16, so masters matter more there: bf16 replaces "
      "loss scaling, not masters.");
}

}  // namespace samples::tour
