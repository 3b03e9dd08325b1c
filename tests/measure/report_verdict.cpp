// The verdict of a report: six kinds of case and healthy runs, each with 10 random trainings.
#include <filesystem>

#include <mezzo.h>
#include <unistd.h>

#include "../../measure/report/findings.h"
#include "../support/catch.h"
#include "../support/random_training.h"

using namespace mezzo;
using amp::report::Finding;
using random_training::Draw;
using random_training::Drawn;

namespace {

constexpr std::uint64_t kSeeds = 10;

/** What a run has beside its net. */
struct Case {
  amp::Options amp = {.verbosity = 0, .max_consecutive_skips = 0};
  double loss_factor = 1, input_factor = 1;
  /** Factor of the loss of a second, linear net on the same data; 0: there is none. */
  double second_factor = 0;
  std::optional<double> lr = {};
  bool adaptive = false;
  std::string op = {};     // computed between the net and the loss; empty: none
  bool op_is_low = false;  // its precision tag is overridden
  int steps = 12;
};

/** Returns numbers like those of x, from numbers above 65504 in one op. */
Tensor through(const std::string& op, const Tensor& x) {
  const Tensor y = tanh(x), large = cat({y, y, y, y}, 1) * 15000 + 33000;  // up to 48000
  if (op == "exp") return log(exp(y + 13)) - 13;
  if (op == "sum") return y + sum(large.detach(), {1}, {.keepdim = true}).to(f32) * 1e-9;
  if (op == "cumsum") return y + cumsum(large.detach(), 1).narrow(1, 0, x.size(1)).to(f32) * 1e-9;
  return y + pow(y.detach() + 20, 4).to(f32) * 1e-9;
}

/** A net, an op after it, and a second net. */
struct Trained : nn::Model<Trained> {
  Trained(nn::Sequential its_net, const Tensor& x, const Case& c)
      : net(add("net", std::move(its_net))), op(c.op) {
    if (c.second_factor != 0) second = add("second", nn::Linear{x.numel() / x.size(0), 3});
  }
  Tensor forward(const Tensor& x) const { return op.empty() ? net(x) : through(op, net(x)); }
  nn::Sequential net;
  std::optional<nn::Linear> second;
  std::string op;
};

/** The findings on a run, and what it was. */
struct Judged {
  std::vector<Finding> findings;
  std::string text;

  const Finding* find(const std::string& kind) const {
    for (const Finding& finding : findings)
      if (finding.kind == kind) return &finding;
    return nullptr;
  }
  bool has_problem() const {
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& finding) { return finding.severity == "problem"; });
  }
};

/** Returns the input of a net times a factor; indices stay, and their embeddings are scaled. */
Tensor scaled_input(const random_training::Net& made, double factor) {
  if (is_floating(made.x.dtype())) return made.x * factor;
  const NoGrad no_grad;
  mul_(made.net.named_parameters()[0].tensor, factor);
  return made.x;
}

std::vector<Finding> findings_in(const std::string& path) {
  const amp::report::ReportData data = amp::report::read_report({path});
  std::filesystem::remove(path);
  REQUIRE(data.runs.size() == 1);
  return amp::report::verdict(data.runs[0]);
}

/** Trains a random net and returns the findings of its report. */
Judged judge(const Case& c, std::uint64_t seed) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("mezzo_verdict_" + std::to_string(::getpid()) + ".jsonl");
  manual_seed(seed);
  Draw draw(seed);
  Drawn drawn = random_training::drawn(draw, c.adaptive);
  if (c.lr) drawn.lr = *c.lr;
  const Tensor x = scaled_input(drawn.net, c.input_factor);
  const Trained net(drawn.net.net, x, c);
  const auto optimizer = drawn.make_optimizer(net.parameters());
  {
    auto session = amp::initialize(net, *optimizer, c.amp);
    std::optional<amp::policy_override> as_low;
    if (c.op_is_low)
      as_low.emplace(
          std::initializer_list<std::pair<std::string_view, Precision>>{{c.op, Precision::low}});
    const amp::Report report(net, *optimizer, session, path, {.every = 3});
    for (int step = 0; step < c.steps; ++step) {
      Tensor loss = drawn.loss_of(net(x)) * c.loss_factor;
      if (net.second)
        loss = loss + mean(square((*net.second)(x.flatten(1).to(f32)).to(f32))) * c.second_factor;
      optimizer->zero_grad();
      amp::scale_loss(loss, *optimizer, [](const Tensor& scaled) { scaled.backward(); });
      optimizer->step();
    }
  }
  Judged out{findings_in(path),
             "seed " + std::to_string(seed) + ": " + c.amp.opt_level + ", " + drawn.text};
  for (const Finding& finding : out.findings)
    out.text += "\n  [" + finding.kind + "] " + finding.text;
  return out;
}

/** Returns the case with the loss scale and the level that a finding suggests. */
Case as_suggested(Case c, const Finding& finding) {
  if (finding.kind == "wrong_tag") c.op_is_low = false;
  if (finding.text.find("raise the loss scale") != std::string::npos)
    c.amp.loss_scale = amp::LossScale(0x1p30);
  if (!finding.level.empty()) {
    c.amp.opt_level = finding.level;
    c.amp.loss_scale.reset();
    c.amp.min_loss_scale.reset();
    c.amp.master_weights.reset();
  }
  if (finding.loss_scale) {
    c.amp.loss_scale = amp::LossScale(*finding.loss_scale);
    c.amp.min_loss_scale.reset();
  }
  return c;
}

/** Checks that the verdict on random runs names `kind`, and that further runs, each as the last one
 *  suggests, lead to one without a problem. */
template <class Make> void check_each(const std::string& kind, const Make& make) {
  constexpr int kMostRuns = 3;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Draw draw(seed + 1000);
    Case c = make(draw);
    Judged run = judge(c, seed);
    std::string text = run.text;
    const bool is_found = run.find(kind) != nullptr;
    for (int i = 0; i < kMostRuns && is_found; ++i) {
      c = as_suggested(c, i == 0 ? *run.find(kind) : run.findings.front());
      run = judge(c, seed);
      text += "\nAs suggested: " + run.text;
      if (!run.has_problem()) break;
    }
    INFO(text);
    CHECK(is_found);
    CHECK_FALSE(run.has_problem());
  }
}

amp::Options level(const char* name, std::optional<amp::LossScale> scale = {}) {
  return {.opt_level = name,
          .loss_scale = std::move(scale),
          .verbosity = 0,
          .max_consecutive_skips = 0};
}

}  // namespace

TEST_CASE("a verdict names gradients that underflow", "[amp][report]") {
  check_each("underflow", [](Draw& draw) {
    return Case{.amp = level(draw.one_of({"O1", "O2", "O3"}), amp::LossScale(draw.power(-2, 2))),
                .loss_factor = draw.power(-24, -16),
                .lr = draw.power(-7, -4),
                .adaptive = true};
  });
}

TEST_CASE("a verdict names gradients that overflow", "[amp][report]") {
  check_each("overflow", [](Draw& draw) {
    Case c{.amp = level(draw.one_of({"O1", "O2"})),
           .loss_factor = draw.power(8, 12),
           .adaptive = true};
    switch (draw.integer(0, 2)) {
      case 0: c.amp.min_loss_scale = draw.power(22, 24); break;
      case 1: c.amp.loss_scale = amp::LossScale(draw.power(22, 28)); break;
      default: c.amp.loss_scale = amp::LossScale(1024.0), c.loss_factor = draw.power(16, 20);
    }
    return c;
  });
}

TEST_CASE("a verdict names products that overflow", "[amp][report]") {
  check_each("overflow", [](Draw& draw) {
    return Case{.amp = level(draw.one_of({"O1", "O2"})),
                .input_factor = draw.power(17, 24),
                .adaptive = true};
  });
}

TEST_CASE("a verdict names updates that are lost", "[amp][report]") {
  check_each("lost_update", [](Draw& draw) {
    Case c{.amp = level("O3", amp::LossScale(draw.power(7, 10))), .lr = draw.power(-17, -15)};
    if (draw.integer(0, 1) == 1) {
      c.amp = level("O5");
      c.amp.master_weights = false;
      c.lr = draw.power(-14, -12);
    }
    c.adaptive = true;
    return c;
  });
}

TEST_CASE("a verdict names an op with the wrong precision tag", "[amp][report]") {
  check_each("wrong_tag", [](Draw& draw) {
    return Case{.amp = level(draw.one_of({"O1", "O2", "O3"})),
                .op = draw.one_of({"exp", "sum", "cumsum", "pow"}),
                .op_is_low = true};
  });
}

TEST_CASE("a verdict says that f16 would do", "[amp][report]") {
  check_each("fine_in_f16", [](Draw& draw) {
    return Case{.amp = level("O0"), .loss_factor = draw.power(-16, 8)};
  });
}

TEST_CASE("a verdict says that bf16 is needed", "[amp][report]") {
  check_each("needs_bf16", [](Draw& draw) {
    Case c{.amp = level("O0"), .adaptive = true};
    if (draw.integer(0, 1) == 0) {
      c.input_factor = draw.power(17, 24);
    } else {
      c.loss_factor = draw.power(-12, -8);
      c.second_factor = draw.power(24, 30);
    }
    return c;
  });
}

TEST_CASE("a verdict is silent on healthy runs", "[amp][report]") {
  for (const amp::Level& tested : amp::kLevels)
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Draw draw(seed + 2000);
      const bool is_pure =
          is_low(tested.cast_model_type.value_or(f32)) && tested.master_weights == false;
      Case c{.amp = level(tested.name.data()),
             .loss_factor = is_pure ? draw.power(2, 6) : draw.power(-4, 4),
             .adaptive = is_pure};
      if (is_pure) c.amp.loss_scale = amp::LossScale(256 / c.loss_factor), c.lr = 0x1p-8;
      const Judged run = judge(c, seed);
      INFO(run.text);
      CHECK_FALSE(run.has_problem());
    }
}

namespace {

/** Trains a net with Adam on the loss that a function computes, and returns the findings. */
template <class Loss>
std::vector<Finding> findings_of(const nn::Module& net, const amp::Options& options,
                                 const Loss& loss, double lr = 1e-3) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("mezzo_verdict_" + std::to_string(::getpid()) + ".jsonl");
  optim::Adam optimizer(net.parameters(), {.lr = lr});
  {
    auto session = amp::initialize(net, optimizer, options);
    const amp::Report report(net, optimizer, session, path, {.every = 3});
    for (int step = 0; step < 12; ++step) {
      optimizer.zero_grad();
      amp::scale_loss(loss(), optimizer, [](const Tensor& scaled) { scaled.backward(); });
      optimizer.step();
    }
  }
  return findings_in(path);
}

std::string kinds_of(const std::vector<Finding>& findings) {
  std::string kinds;
  for (const Finding& finding : findings) kinds += (kinds.empty() ? "" : " ") + finding.kind;
  return kinds;
}

}  // namespace

TEST_CASE("a verdict on runs with unusual but harmless numbers", "[amp][report]") {
  manual_seed(5);
  const Tensor x = randn({8, 6}), y = randint(0, 4, {8});
  const nn::Sequential net{nn::Linear{6, 16}, nn::ReLU{}, nn::Linear{16, 4}};
  const auto loss = [&] { return cross_entropy(net(x), y); };
  SECTION("masters keep updates that are tiny") {
    CHECK(kinds_of(findings_of(net, level("O2"), loss, 1e-7)) == "healthy");
  }
  SECTION("a parameter without gradient") {
    struct WithSpare : nn::Model<WithSpare> {
      Tensor forward(const Tensor& in) const { return used(in); }
      nn::Linear used = add("used", nn::Linear{6, 4}), spare = add("spare", nn::Linear{6, 4});
    };
    const WithSpare model;
    CHECK(kinds_of(findings_of(model, level("O2"), [&] { return cross_entropy(model(x), y); })) ==
          "healthy");
  }
  SECTION("ReLU units that are off") {
    {
      const NoGrad no_grad;
      net.named_parameters()[1].tensor.fill_(-100);
    }
    CHECK(kinds_of(findings_of(net, level("O3", amp::LossScale(128.0)), loss, 0.01)) == "healthy");
  }
  SECTION("an embedding with rows that are not used") {
    const nn::Sequential words{nn::Embedding{500, 8}, nn::Flatten{}, nn::Linear{32, 4}};
    const Tensor indices = randint(0, 500, {8, 4});
    for (const char* name : {"O1", "O2", "O5"})
      CHECK(kinds_of(findings_of(words, level(name),
                                 [&] { return cross_entropy(words(indices), y); })) == "healthy");
  }
  SECTION("a batch of one") {
    for (const char* name : {"O1", "O2", "O4"})
      CHECK(kinds_of(findings_of(net, level(name), [&] {
              return cross_entropy(net(x.narrow(0, 0, 1)), y.narrow(0, 0, 1));
            })) == "healthy");
  }
  SECTION("a mask of -inf before softmax") {
    const Tensor mask = tensor({0, 0, 1, 1}, {.dtype = boolean});
    const auto masked = [&] {
      return mean(
          square(softmax(masked_fill(net(x), mask, -std::numeric_limits<double>::infinity()), -1)));
    };
    CHECK(kinds_of(findings_of(net, level("O1"), masked)) == "healthy");
  }
}

TEST_CASE("a verdict on a loss that is NaN does not blame the precision", "[amp][report]") {
  manual_seed(6);
  const Tensor x = randn({8, 6});
  for (const char* name : {"O0", "O1", "O2", "O4"}) {
    const nn::Sequential net{nn::Linear{6, 4}};
    const auto findings =
        findings_of(net, level(name), [&] { return mean(sqrt(-1 - square(net(x)))); });
    INFO(name);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].kind == "bad_loss");
    CHECK(findings[0].names == std::vector<std::string>{"sqrt"});
  }
}

TEST_CASE("a verdict on an infinite cast names the end of the range of its dtype",
          "[amp][report]") {
  amp::report::RunData run;
  run.steps.emplace_back();
  amp::CastEntry cast;
  cast.op = "matmul";
  cast.overflowed = 1;
  run.casts.push_back(cast);
  const auto text_in = [&](const char* dtype) {
    run.run.cast_dtype = dtype;
    const auto findings = amp::report::verdict(run);
    REQUIRE(!findings.empty());
    return findings[0].text + findings[0].level;
  };
  const std::string f16_text = text_in("f16"), bf16_text = text_in("bf16");
  CHECK(f16_text.find("above 65504") != std::string::npos);
  CHECK(f16_text.find("use bf16 (O4)") != std::string::npos);
  CHECK(bf16_text.find("above 3.39e38") != std::string::npos);
  CHECK(bf16_text.find("O4") == std::string::npos);
}
