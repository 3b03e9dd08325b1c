#include "chapters.h"

#include <mezzo.h>

#include <algorithm>
#include <cmath>

namespace samples::tour {

using namespace mezzo;

namespace {

constexpr int kLargestExponent = 44;

/** Returns a number that is stored in a dtype. */
double stored(double value, DType dtype) {
  return tensor(value, {.dtype = f64}).to(dtype).item<double>();
}

SmallGradient scale_one(double exact, double scale) {
  SmallGradient g{.exact = exact, .in_f16 = stored(exact, f16), .scale = scale};
  const Tensor scaled = tensor(exact * scale).to(f16);
  g.scaled = scaled.item<double>();
  g.recovered = (scaled.to(f32) / scale).item<double>();
  return g;
}

/** Returns the smallest power of two that f16 does not store as 0. */
double smallest_f16() {
  double p = 1;
  while (stored(p / 2, f16) != 0) p /= 2;
  return p;
}

ScaleTrial try_scale(int exponent, double factor, const std::vector<double>& reference) {
  const std::vector<double> g = small_net_gradients("O1", std::ldexp(1.0, exponent), factor);
  double largest = 0, error = 0, infinite = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    error = std::isfinite(g[i]) ? std::max(error, std::abs(g[i] - reference[i])) : INFINITY;
    if (!std::isfinite(g[i])) ++infinite;
  }
  return {.exponent = exponent,
          .zero = share_lost(g, reference),
          .infinite = infinite / static_cast<double>(g.size()),
          .error = error / largest};
}

/** Tries all scales and finds the window of those that lose nothing. */
void find_window(UnderflowFinding& found) {
  const std::vector<double> reference = small_net_gradients("O0", 1, found.loss_factor);
  for (int k = 0; k <= kLargestExponent; ++k)
    found.trials.push_back(try_scale(k, found.loss_factor, reference));
  // From the largest scale downwards: all that overflow, all that are exact, all that are complete.
  auto trial = found.trials.rbegin();
  const auto first_without = [&](const auto& property) {
    return trial = std::find_if_not(trial, found.trials.rend(), property);
  };
  const auto last = first_without([](const ScaleTrial& t) { return t.infinite > 0; });
  if (last == found.trials.rend()) fail<StateError>("tour", {.what = "no loss scale fits"});
  found.last_finite = last->exponent;
  first_without([&](const ScaleTrial& t) { return t.error == last->error; });
  found.first_exact = (trial - 1)->exponent;
  first_without([](const ScaleTrial& t) { return t.zero == 0; });
  found.first_complete = (trial - 1)->exponent;
}

/** Lets a dynamic scale fall from a start that is too high until a step is taken. */
void find_dynamic(UnderflowFinding& found) {
  const SmallTask task = make_small_task();
  optim::SGD optimizer(task.net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(task.net, optimizer,
                                 {.opt_level = "O1", .verbosity = 0, .max_loss_scale = 0x1p60});
  amp::LossScaler& scaler = session.loss_scaler();
  found.start = std::ldexp(1.0, kLargestExponent);
  scaler.set_loss_scale(found.start);
  optim::StepResult result{};
  do {
    optimizer.zero_grad();
    amp::scale_loss(task.loss() * found.loss_factor, optimizer,
                    [](const Tensor& scaled) { scaled.backward(); });
    result = optimizer.step();
    if (result == optim::StepResult::skipped) ++found.skipped;
  } while (result == optim::StepResult::skipped);
  found.settled = scaler.loss_scale();
}

void tell_trials(Guide& guide, const UnderflowFinding& found) {
  Table table{.header = {"loss scale", "became 0", "inf or nan", "largest error"}, .rows = {}};
  for (const ScaleTrial& t : found.trials)
    if (t.exponent % 4 == 0)
      table.rows.push_back({str("2^", t.exponent), percent(t.zero), percent(t.infinite),
                            std::isfinite(t.error) ? percent(t.error, 3) : "inf"});
  guide.show(table);
  guide.show(
      str("nothing becomes 0 or inf from 2^", found.first_complete, " to 2^", found.last_finite));
  guide.show(str("the error is smallest from 2^", found.first_exact, " to 2^", found.last_finite));
}

}  // namespace

std::vector<double> small_net_gradients(const char* level, double scale, double factor) {
  const SmallTask task = make_small_task();
  optim::SGD optimizer(task.net.parameters(), {.lr = 0.1});
  const auto session = amp::initialize(task.net, optimizer,
                                       {.opt_level = level, .loss_scale = scale, .verbosity = 0});
  amp::scale_loss(task.loss() * factor, optimizer, [](const Tensor& scaled) { scaled.backward(); });
  std::vector<double> all;
  for (const Tensor& parameter : task.net.parameters())
    for (const double g : parameter.grad().to_vector<double>()) all.push_back(g);
  return all;
}

double share_lost(const std::vector<double>& gradients, const std::vector<double>& reference) {
  double lost = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i] == 0 && reference[i] != 0) ++lost;
  return lost / static_cast<double>(gradients.size());
}

UnderflowFinding find_underflow() {
  UnderflowFinding found;
  found.smallest = smallest_f16();
  found.loss_factor = 1e-8;
  found.gradient = scale_one(1e-8, 0x1p16);
  find_window(found);
  find_dynamic(found);
  return found;
}

void tell_underflow(Guide& guide) {
  guide.chapter(4, "Underflow and loss scaling");
  guide.say(
      "To learn, a net needs a gradient for each weight: how much the loss changes with it. "
      "Gradients are often tiny, and small numbers are missing in f16, too: what is nearer to 0 "
      "than to the smallest f16 becomes 0. This is an underflow.");
  guide.ask(
      "A gradient of 1e-8 is stored in f16. What is left? And what if we multiply it by 2^16 "
      "first, store it, and divide by 2^16 in f32?");
  const UnderflowFinding found = find_underflow();
  const SmallGradient& g = found.gradient;
  guide.show(
      str("smallest f16 above 0: ", power_text(found.smallest), " = ", rounded(found.smallest, 3)));
  guide.show(str("stored as it is:      ", rounded(g.in_f16)));
  guide.show(str("stored with ", power_text(g.scale), ":     ", rounded(g.scaled),
                 ", divided: ", rounded(g.recovered)));
  guide.explain(
      "Multiplying by a power of two changes the exponent only, so the digits survive; "
      "multiplying the loss by it multiplies every gradient, hence the name loss scaling.");
  guide.ask(
      "A small net has a loss with a factor of 1e-8, which makes its gradients tiny. With which "
      "loss "
      "scales do the gradients of all its 161 weights survive at O1: 2^0, 2^8, 2^16, 2^32, 2^44? "
      "(Errors are shares of the "
      "largest gradient.)");
  tell_trials(guide, found);
  guide.explain(
      "Too small a scale leaves gradients below f16, or among its smallest numbers, which have "
      "fewer "
      "digits; too large a scale pushes them above 65504; between is a wide window.");
  guide.ask(str("A dynamic loss scale starts at ", power_text(found.start),
                ", which is too high. It is halved at each overflow, and that step is skipped. "
                "Where does it stop?"));
  guide.show(str("at ", power_text(found.settled), ", after ", found.skipped, " skipped steps"));
  guide.explain(
      "It stops at the upper edge of the window, so a few skipped steps at the start of a "
      "training are normal.");
}

}  // namespace samples::tour
