// The claims of the tour's chapters, compared with arithmetic in f64 that calls no op.
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "../../samples/tour/chapters.h"
#include "../io/files.h"
#include "../support/catch.h"

using namespace samples::tour;

namespace {

/** A 16-bit type, in numbers. */
struct Format {
  int digits;      // significant binary digits
  int smallest;    // the smallest number above 0 is 2^smallest
  double largest;  // finite number
};
const Format kF16{.digits = 11, .smallest = -24, .largest = 65504};
const Format kBf16{.digits = 8, .smallest = -133, .largest = std::ldexp(255.0, 120)};

/** Rounds to the nearest number of a format; of two equally near ones to that with an even last
 *  digit. */
double round_to(const Format& format, double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  const int last_digit = std::max(exponent - format.digits, format.smallest);
  const double y = std::ldexp(std::nearbyint(std::ldexp(x, -last_digit)), last_digit);
  return std::abs(y) > format.largest ? std::copysign(INFINITY, x) : y;
}
double to_f16(double x) { return round_to(kF16, x); }
double to_bf16(double x) { return round_to(kBf16, x); }

/** Returns the value of the bits of a finite f16 above 0 whose exponent bits are not all 0. */
double decode_f16(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31) - 15;
  return std::ldexp(1 + static_cast<double>(bits & 1023) / 1024, exponent);
}

}  // namespace

TEST_CASE("tour 1: numbers are stored as the nearest f16", "[samples][tour]") {
  const NumberFinding found = find_number();
  REQUIRE(found.numbers.size() == 4);
  for (const Stored& n : found.numbers) {
    INFO(n.wanted);
    CHECK(n.value == to_f16(n.wanted));
    CHECK(decode_f16(n.bits) == n.value);
    CHECK(decode_f16(n.bits - 1u) == n.below);
    CHECK(decode_f16(n.bits + 1u) == n.above);
    CHECK(n.relative_error == std::abs(to_f16(n.wanted) - n.wanted) / n.wanted);
    CHECK(n.relative_error <= std::ldexp(1, -11));
  }
  CHECK(found.numbers[0].wanted == 0.1);
  CHECK(found.numbers[0].value != 0.1);
  CHECK(found.numbers[0].relative_error == Approx(0.0002).margin(0.00005));  // 0.02 %
  CHECK(found.f32_error == std::abs(static_cast<double>(0.1f) - 0.1) / 0.1);
  CHECK(found.f32_error == Approx(0.00000001).margin(0.00000001));  // 0.000001 %
  CHECK(bits_text(0x2E66) == "0 01011 1001100110");
}

TEST_CASE("tour 2: sums are rounded, and 2^-11 of a number is lost", "[samples][tour]") {
  const RoundingFinding found = find_rounding();
  REQUIRE(found.additions.size() == 3);
  for (const Addition& a : found.additions) CHECK(a.result == to_f16(a.a + a.b));
  CHECK(found.additions[0].result == 2048);
  REQUIRE(found.spacings.size() == 5);
  for (const Spacing& s : found.spacings) {
    INFO(s.at);
    CHECK(to_f16(s.at) == s.at);
    CHECK(to_f16(s.at + s.spacing) == s.at + s.spacing);
    CHECK(to_f16(s.at + 0.49 * s.spacing) == s.at);
    CHECK(to_f16(s.at + 0.51 * s.spacing) == s.at + s.spacing);
    CHECK(to_f16(s.at + s.lost) == s.at);
    CHECK(to_f16(s.at + 2 * s.lost) > s.at);
    CHECK(s.lost / s.at <= std::ldexp(1, -11));
    CHECK(s.lost / s.at > std::ldexp(1, -12));
  }
  double total = 0;
  for (int i = 0; i < found.ones; ++i) total = to_f16(total + 1);
  CHECK(found.counted == total);
  CHECK(found.counted < found.ones);
  CHECK(found.summed == found.ones);
}

TEST_CASE("tour 3: results above 65504 are inf, and O1 saves some", "[samples][tour]") {
  const OverflowFinding found = find_overflow();
  CHECK(found.largest == 65504);
  CHECK(to_f16(found.first_infinite) == INFINITY);
  CHECK(to_f16(found.first_infinite - 1) == found.largest);
  const std::vector<std::string> names{"mul", "pow", "exp", "sum", "mean"};
  const std::vector<std::string> tags{"promote", "f32", "f32", "f32", "match"};
  const std::vector<double> exact{300.0 * 300, 300.0 * 300, std::exp(12), 100 * 1000, 1000};
  REQUIRE(found.ops.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO(found.ops[i].text);
    CHECK(found.ops[i].op == names[i]);
    CHECK(found.ops[i].tag == tags[i]);
    CHECK(found.ops[i].in_f16 == to_f16(exact[i]));
    CHECK(found.ops[i].in_f32 == Approx(exact[i]).epsilon(1e-6));
    // What is tagged f32 is as in f32, the rest is as without casts.
    CHECK(found.ops[i].in_o1 == (tags[i] == "f32" ? found.ops[i].in_f32 : to_f16(exact[i])));
  }
  CHECK(found.mean_of_squares == INFINITY);
  CHECK(found.op == "mul");
  CHECK(found.message == "mul: f16[1,4]@cpu from inputs of 300");
  CHECK(found.with_override == 90000);
}

namespace {

/** Returns the largest magnitude of the gradients of the small net's loss: of its layers' results
 *  and weights. */
double largest_gradient() {
  const SmallTask task = make_small_task();
  const auto w1 = task.net.fc1.weight().to_vector<double>();
  const auto b1 = task.net.fc1.bias().to_vector<double>();
  const auto w2 = task.net.fc2.weight().to_vector<double>();
  const double b2 = task.net.fc2.bias().item<double>();
  const auto x = task.x.to_vector<double>(), y = task.y.to_vector<double>();
  std::vector<double> gw1(w1.size()), gb1(b1.size()), gw2(w2.size());
  double gb2 = 0, largest = 0;
  const auto see = [&](double g) { largest = std::max(largest, std::abs(g)); };
  for (std::size_t n = 0; n < y.size(); ++n) {
    std::vector<double> h(b1);
    double out = b2;
    for (std::size_t j = 0; j < h.size(); ++j) {
      for (std::size_t i = 0; i < 8; ++i) h[j] += w1[8 * j + i] * x[8 * n + i];
      h[j] = std::tanh(h[j]);
      out += w2[j] * h[j];
    }
    const double g_out = 2 * (out - y[n]) / static_cast<double>(y.size());
    see(g_out);
    gb2 += g_out;
    for (std::size_t j = 0; j < h.size(); ++j) {
      gw2[j] += g_out * h[j];
      const double g_h = g_out * w2[j], g_sum = g_h * (1 - h[j] * h[j]);
      see(g_h);
      gb1[j] += g_sum;
      for (std::size_t i = 0; i < 8; ++i) gw1[8 * j + i] += g_sum * x[8 * n + i];
    }
  }
  see(gb2);
  for (const auto* list : {&gw1, &gb1, &gw2})
    for (const double g : *list) see(g);
  return largest;
}

}  // namespace

TEST_CASE("tour 4: a loss scale saves gradients within a window", "[samples][tour]") {
  const UnderflowFinding found = find_underflow();
  CHECK(found.smallest == std::ldexp(1, -24));
  CHECK(to_f16(found.smallest) == found.smallest);
  CHECK(to_f16(found.smallest / 2) == 0);
  const SmallGradient& g = found.gradient;
  CHECK(g.in_f16 == 0);
  CHECK(to_f16(g.exact) == 0);
  CHECK(g.scale == 65536);
  CHECK(g.scaled == to_f16(g.exact * g.scale));
  CHECK(g.recovered == g.scaled / g.scale);
  CHECK(g.recovered == Approx(g.exact).epsilon(std::ldexp(1, -11)));

  REQUIRE(found.trials.size() == 45);
  CHECK(found.trials[0].zero == 1);
  for (const ScaleTrial& t : found.trials) {
    INFO("2^" << t.exponent);
    if (t.exponent >= found.first_complete) CHECK(t.zero == 0);
    if (t.exponent == found.first_complete - 1) CHECK(t.zero > 0);
    CHECK(std::isfinite(t.error) == (t.infinite == 0));
    CHECK((t.infinite == 0) == (t.exponent <= found.last_finite));
    if (t.exponent >= found.first_exact && t.exponent <= found.last_finite)
      CHECK(t.error == found.trials[static_cast<std::size_t>(found.last_finite)].error);
    if (t.exponent == found.first_exact - 1)
      CHECK(t.error != found.trials[static_cast<std::size_t>(found.last_finite)].error);
    // "the error is smallest": no scale has one that is smaller by more than a rounding.
    CHECK(t.error > 0.99 * found.trials[static_cast<std::size_t>(found.last_finite)].error);
  }
  CHECK(found.first_complete <= found.first_exact);
  CHECK(found.first_exact < found.last_finite);
  // The scales that the text asks about: 2^0 and 2^8 lose gradients, 2^16 and 2^32 do not.
  for (const std::size_t k : {16u, 32u}) {
    CHECK(found.trials[k].zero == 0);
    CHECK(found.trials[k].error < 0.001);
  }
  CHECK(found.trials[8].zero > 0);
  CHECK(found.trials[44].infinite > 0);
  // The largest gradient decides where the window ends: 65520 and more becomes inf.
  const double largest = found.loss_factor * largest_gradient();
  CHECK(found.last_finite == std::floor(std::log2(65520 / largest)));

  CHECK(found.start == std::ldexp(1, 44));
  CHECK(found.settled == std::ldexp(1, found.last_finite));
  CHECK(found.skipped == 44 - found.last_finite);
}

TEST_CASE("tour 5: updates are lost beside an f16 weight, not beside its master",
          "[samples][tour]") {
  const MastersFinding found = find_masters();
  double in_f16 = 1;
  for (int i = 0; i < found.steps; ++i) in_f16 = to_f16(in_f16 + found.update);
  const double exact = 1 + found.steps * found.update;
  REQUIRE(found.weights.size() == 3);
  const SteppedWeight &o0 = found.weights[0], &o3 = found.weights[1], &o2 = found.weights[2];
  CHECK((o0.level == "O0" && o3.level == "O3" && o2.level == "O2"));
  CHECK((o0.dtype == "f32" && o3.dtype == "f16" && o2.dtype == "f16"));
  CHECK(o0.weight == exact);
  CHECK(o3.weight == in_f16);
  CHECK(o3.weight == 1);
  CHECK(o2.updated == exact);
  CHECK(o2.weight == to_f16(exact));

  const auto& [before, after] = found.bare;
  REQUIRE(before.size() == 64);
  std::int64_t expected = 0, small = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    INFO(before[i]);
    CHECK(std::abs(before[i]) <= 0.5);
    CHECK(after[i] == to_f16(before[i] - found.lr));
    expected += to_f16(before[i] - found.lr) != before[i];
    small += std::abs(before[i]) < 0.25;
  }
  CHECK(found.bare.changed() == expected);
  CHECK(found.bare.changed() == small);  // "from 0.25 on f16 is too coarse"
  CHECK(found.with_masters.changed() == 64);
  for (std::size_t i = 0; i < 64; ++i)
    CHECK(found.with_masters.before[i] - found.with_masters.after[i] ==
          Approx(found.lr).epsilon(0.001));
}

TEST_CASE("tour 6: each op runs in the type of its tag", "[samples][tour]") {
  using mezzo::f16, mezzo::f32;
  const CastsFinding found = find_casts();
  const std::vector<OpRun> expected{
      {"linear", "low", f16, f16},  {"relu", "match", f16, f16},
      {"add", "promote", f32, f16}, {"layer_norm", "f32", f32, f16},
      {"linear", "low", f16, f16},  {"cross_entropy", "f32", f32, f32}};
  REQUIRE(found.ops.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(expected[i].op);
    CHECK(found.ops[i].op == expected[i].op);
    CHECK(found.ops[i].tag == expected[i].tag);
    CHECK(found.ops[i].at_o1 == expected[i].at_o1);
    CHECK(found.ops[i].at_o2 == expected[i].at_o2);
  }
  // Elements of input, weight and bias, 2 bytes each; 2 x 4 outputs of 4 bytes.
  REQUIRE(found.o1.size() == 3);
  CHECK((found.o1[0].module == "fc1" && found.o1[0].count == 3));
  CHECK(found.o1[0].bytes == 2 * (2 * 8 + 8 * 8 + 8));
  CHECK((found.o1[1].module == "fc2" && found.o1[1].count == 3));
  CHECK(found.o1[1].bytes == 2 * (2 * 8 + 4 * 8 + 4));
  CHECK((found.o1[2].op == "cross_entropy" && found.o1[2].bytes == 4 * 2 * 4));
  REQUIRE(found.o2.size() == 2);
  CHECK((found.o2[0].op == "model input" && found.o2[0].bytes == 2 * 2 * 8));
  CHECK((found.o2[1].op == "model output" && found.o2[1].bytes == 4 * 2 * 4));
  CHECK(found.public_ops.size() == 5);
  CHECK(found.public_ops.at("banned") == 1);
  CHECK(found.banned.find("binary_cross_entropy_with_logits") != std::string::npos);
  const double loss = (std::log1p(std::exp(-2.0)) + std::log1p(std::exp(-3.0))) / 2;
  CHECK(found.loss_f32 == Approx(loss).epsilon(1e-5));
  CHECK(found.loss_o1 == Approx(loss).epsilon(1e-5));
  CHECK(found.slope_f32 == Approx(1 + std::exp(12.0)).epsilon(1e-4));
  CHECK(to_f16(found.slope_f32) == INFINITY);
  CHECK(found.slope_f16 == INFINITY);
}

TEST_CASE("tour 7: bf16 has the range, f16 the digits", "[samples][tour]") {
  const BfloatFinding found = find_bfloat();
  REQUIRE(found.numbers.size() == 5);
  for (const InBoth& n : found.numbers) {
    INFO(n.wanted);
    CHECK(n.in_f16 == to_f16(n.wanted));
    CHECK(n.in_bf16 == to_bf16(n.wanted));
    CHECK(n.in_bf16 == Approx(n.wanted).epsilon(0.01));
    const bool ordinary = n.wanted > 1 && n.wanted < 1000;
    CHECK((std::abs(n.in_f16 - n.wanted) < 0.01 * n.wanted) == ordinary);
    CHECK(n.in_bf16 != n.wanted);
    CHECK((n.in_f16 == n.wanted) == (n.wanted == 257));
  }
  CHECK(found.o1.gradients_lost == 1);
  CHECK(found.o4.gradients_lost == 0);
  CHECK(std::abs(found.large_output) > kF16.largest);
  CHECK_FALSE(std::isfinite(found.o1.large_output));
  CHECK(found.o4.large_output == Approx(found.large_output).epsilon(0.02));
  CHECK(found.o1.output_error > 0);
  CHECK(found.o1.output_error < std::ldexp(1, -10));
  CHECK(found.o4.output_error < std::ldexp(1, -7));
  CHECK(found.o4.output_error > 3 * found.o1.output_error);

  double in_f16 = 1, in_bf16 = 1;
  for (int i = 0; i < found.steps; ++i) {
    in_f16 = to_f16(in_f16 + found.update);
    in_bf16 = to_bf16(in_bf16 + found.update);
  }
  const double exact = 1 + found.steps * found.update;
  CHECK(found.half.updated == in_f16);
  CHECK(in_f16 == exact);
  CHECK(found.bare.updated == in_bf16);
  CHECK(in_bf16 == 1);
  CHECK(found.masters.updated == exact);
  CHECK(found.masters.weight == to_bf16(exact));
}

namespace {

/** Trains as chapter 8 does, without a report. */
RecordedRun train_unobserved(const char* level, const ReportFinding& settings) {
  const SmallTask task = make_small_task();
  mezzo::optim::Adam optimizer(task.net.parameters(), {.lr = settings.lr});
  auto session = mezzo::amp::initialize(task.net, optimizer, {.opt_level = level, .verbosity = 0});
  RecordedRun run{.level = level};
  const auto numbers = [&] {
    std::vector<double> all;
    for (const mezzo::Tensor& p : mezzo::amp::master_params(optimizer))
      for (const double x : p.to_vector<double>()) all.push_back(x);
    return all;
  };
  for (; run.steps < 1000; ++run.steps) {
    const mezzo::Tensor loss = task.loss();
    run.last_loss = loss.item<double>();
    if (run.steps == 0) run.first_loss = run.last_loss;
    optimizer.zero_grad();
    run.last_scale = session.loss_scaler().loss_scale();
    mezzo::amp::scale_loss(loss, optimizer, [](const mezzo::Tensor& s) { s.backward(); });
    const auto before = numbers();
    if (optimizer.step() == mezzo::optim::StepResult::skipped) {
      ++run.skipped;
      continue;
    }
    if (run.steps % settings.every != 0) continue;
    const auto after = numbers();
    for (std::size_t i = 0; i < after.size(); ++i) run.no_effect += before[i] == after[i];
    run.updates += static_cast<std::int64_t>(after.size());
  }
  return run;
}

}  // namespace

TEST_CASE("tour 8: the report recorded what happened", "[samples][tour]") {
  const files::Directory folder;
  const ReportFinding found = find_report(folder / "tour.html");
  REQUIRE(found.runs.size() == 3);
  for (const RecordedRun& run : found.runs) {
    INFO(run.level);
    const RecordedRun expected = train_unobserved(run.level.c_str(), found);
    CHECK(run.steps == expected.steps);
    CHECK(run.skipped == expected.skipped);
    CHECK(run.first_loss == expected.first_loss);
    CHECK(run.last_loss == expected.last_loss);
    CHECK(run.last_scale == expected.last_scale);
    CHECK(run.updates == expected.updates);
    CHECK(run.no_effect == expected.no_effect);
  }
  const RecordedRun &o0 = found.runs[0], &o2 = found.runs[1], &o3 = found.runs[2];
  CHECK((o0.level == "O0" && o2.level == "O2" && o3.level == "O3"));
  CHECK(o2.last_loss == Approx(o0.last_loss).epsilon(0.01));
  CHECK(o3.first_loss - o3.last_loss < 0.6 * (o0.first_loss - o0.last_loss));
  CHECK((o0.skipped == 0 && o2.skipped > 0 && o3.skipped == 0));
  CHECK(o2.last_scale == std::ldexp(65536, static_cast<int>(-o2.skipped)));
  CHECK((o0.no_effect == 0 && o2.no_effect == 0));
  CHECK(2 * o3.no_effect > o3.updates);
  const std::string page = files::read(folder / "tour.html");
  CHECK(page.compare(0, 15, "<!doctype html>") == 0);
  CHECK(page.size() < 2000000);
}

TEST_CASE("chapters ask, then answer, then explain, in at most 78 columns", "[samples][tour]") {
  const files::Directory folder;
  const std::vector<Chapter> all = chapters();
  REQUIRE(all.size() == 8);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::ostringstream out;
    Guide guide(out, {.report = folder / "tour.html"});
    all[i](guide);
    const std::string heading = "Chapter " + std::to_string(i + 1) + ": ";
    CHECK(out.str().compare(0, heading.size(), heading) == 0);
    std::istringstream lines(out.str());
    std::string parts;
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(line.size() <= 78);
      CHECK((line.empty() || line.back() != ' '));
      if (line.rfind("Predict: ", 0) == 0) parts += 'P';
      if (line == "What happened:") parts += 'H';
      if (line.rfind("Why: ", 0) == 0) parts += 'W';
    }
    INFO(heading << parts);
    CHECK(parts.size() >= 3);
    for (std::size_t k = 0; k < parts.size(); ++k) CHECK(parts[k] == "PHW"[k % 3]);
    CHECK(parts.size() % 3 == 0);
  }
}
